"""The managers that share the tenants, for `manager top`: their slots, and the slots that none has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from apis.tenancy import Tenant
from ctrlruntime.api.scalars import parse_time
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Forbidden, NotFound
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding import ALL_SLOTS, format_slots, parse_slots, slot_of
from ctrlruntime.sharding.leases import member_of
from ctrlruntime.sharding.options import GROUP_LABEL
from manager.commands.summaries import Summary
from manager.commands.tables import Column

NO_OWNER: Final = "(none)"
MEMBERS: Final = (
    Column("NAMESPACE", "namespace"),
    Column("MEMBER", "member"),
    Column("SLOTS", "slots"),
    Column("TENANTS", "tenants"),
    Column("RENEWED", "renewed"),
)


async def read_members(
    client: Client, found: Iterable[Summary], now: datetime
) -> list[dict[str, Any]]:
    """Return a row for each member at work, and one for slots that none has; nothing where none shares or none may be seen.

    Of the objects `found`, tenants are counted.
    """
    try:
        leases: list[dict[str, Any]] = await client.list(LEASE, labels=GROUP_LABEL)
    except (Forbidden, NotFound):
        return []
    kind = Tenant.gvk().kind
    counts = Counter(
        slot_of(each.name, namespace=each.namespace) for each in found if each.kind == kind
    )
    groups: dict[str, list[dict[str, Any]]] = {}
    for lease in leases:
        member, namespace = member_of(lease), lease["metadata"]["namespace"]
        if member is None:
            continue
        rows = groups.setdefault(namespace, [])
        renewed = str(lease["spec"].get("renewTime") or "")
        age = (now - parse_time(renewed)).total_seconds() if renewed else member.duration
        if member.holder and age < member.duration:
            held = member.announced.held
            rows.append(_row(namespace, member.name, held, counts, f"{max(0.0, age):.0f}s ago"))
    for namespace, rows in groups.items():
        without = ALL_SLOTS.difference(*(parse_slots(row["slots"]) for row in rows if row["slots"]))
        if without:
            rows.append(_row(namespace, NO_OWNER, without, counts, ""))
    return [row for rows in groups.values() for row in rows]


def _row(
    namespace: str, member: str, slots: frozenset[int], counts: Counter[int], renewed: str
) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "member": member,
        "slots": format_slots(slots),
        "tenants": sum(counts[slot] for slot in slots),
        "renewed": renewed,
    }
