"""The managers that share objects, for `manager top`: their slots, and the slots that none has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from apis.cloud import Instance
from apis.cosmos import CosmosFullNode
from apis.tenancy import Tenant
from ctrlruntime.api.scalars import parse_time
from ctrlruntime.client import Client, Forbidden, NotFound
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding import ALL_SLOTS, format_slots, parse_slots, slot_of
from ctrlruntime.sharding.leases import member_of
from ctrlruntime.sharding.members import LABEL_VERSION
from ctrlruntime.sharding.options import GROUP_LABEL
from manager.commands.summaries import Summary
from manager.commands.tables import Column
from manager.options import CLOUD_GROUP, COSMOS_GROUP

NO_OWNER: Final = "(none)"
MEMBERS: Final = (
    Column("NAMESPACE", "namespace"),
    Column("MEMBER", "member"),
    Column("SLOTS", "slots"),
    Column("TENANTS", "tenants"),
    Column("NODE SETS", "sets"),
    Column("INSTANCES", "instances"),
    Column("RENEWED", "renewed"),
)


async def read_members(
    client: Client, found: Iterable[Summary], now: datetime
) -> list[dict[str, Any]]:
    """Return a row for each member at work, and one for slots that none has; nothing where none shares or none may be seen.

    Of the objects `found`, those are counted that the members of a group divide.
    """
    try:
        leases: list[dict[str, Any]] = await client.list(LEASE, labels=GROUP_LABEL)
    except (Forbidden, NotFound):
        return []
    slots = {kind.gvk().kind: Counter[int]() for kind in (Tenant, CosmosFullNode, Instance)}
    for each in found:
        if each.kind in slots:
            slots[each.kind][slot_of(each.name, namespace=each.namespace)] += 1
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    divided: dict[tuple[str, str], tuple[Counter[int], ...]] = {}
    for lease in leases:
        member, namespace = member_of(lease), lease["metadata"]["namespace"]
        if member is None:
            continue
        key = namespace, lease["metadata"]["labels"][GROUP_LABEL]
        counts = divided[key] = _divided(key[1], member.label_version, slots)
        rows = groups.setdefault(key, [])
        renewed = str(lease["spec"].get("renewTime") or "")
        age = (now - parse_time(renewed)).total_seconds() if renewed else member.duration
        if member.holder and age < member.duration:
            held = member.announced.held
            rows.append(_row(namespace, member.name, held, counts, f"{max(0.0, age):.0f}s ago"))
    for key, rows in groups.items():
        without = ALL_SLOTS.difference(*(parse_slots(row["slots"]) for row in rows if row["slots"]))
        if without:
            rows.append(_row(key[0], NO_OWNER, without, divided[key], ""))
    return [row for rows in groups.values() for row in rows]


def _divided(group: str, rule: int, slots: Mapping[str, Counter[int]]) -> tuple[Counter[int], ...]:
    """Return tenants, sets of nodes and Instances by slot, as far as members of a group with that rule divide them."""
    tenants, sets, instances = slots.values()
    more = rule - LABEL_VERSION
    return (
        Counter() if group in {COSMOS_GROUP, CLOUD_GROUP} else tenants,
        sets if more & 1 else Counter(),
        instances if more & 2 else Counter(),
    )


def _row(
    namespace: str,
    member: str,
    slots: frozenset[int],
    counts: tuple[Counter[int], ...],
    renewed: str,
) -> dict[str, Any]:
    tenants, sets, instances = (sum(each[slot] for slot in slots) for each in counts)
    return {
        "namespace": namespace,
        "member": member,
        "slots": format_slots(slots),
        "tenants": tenants,
        "sets": sets,
        "instances": instances,
        "renewed": renewed,
    }
