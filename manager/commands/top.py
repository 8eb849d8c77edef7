"""`manager top`: the whole control plane on one page, failures first, with the user's own rights."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import yaml

from apis.cloud import FleetRollout, Instance
from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob
from apis.fleet import FleetConfig
from apis.health import Health
from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.scalars import parse_time
from ctrlruntime.client import Client, Forbidden, NoKindMatch, NotFound
from ctrlruntime.clock import utc_now
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding import ALL_SLOTS, format_slots, parse_slots, slot_of
from ctrlruntime.sharding.leases import member_of
from ctrlruntime.sharding.members import LABEL_VERSION
from ctrlruntime.sharding.options import GROUP_LABEL
from manager.commands.output import echo
from manager.commands.summaries import Summary, count_states, not_good, summary_of
from manager.commands.tables import Column, output_option, print_rows
from manager.flags.cluster import cluster_options, talk
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

KINDS: Final[tuple[type[Any], ...]] = (
    TenantRegistry,
    TenantTemplate,
    Tenant,
    Instance,
    FleetRollout,
    CosmosFullNode,
    ScheduledVolumeSnapshot,
    StatefulJob,
    FleetConfig,
    ChangeFreeze,
)
"""What people write; what instances own is part of theirs."""
COUNTS: Final = (
    Column("KIND", "kind"),
    Column("HEALTH", "health"),
    Column("STATE", "state"),
    Column("VERSION", "version"),
    Column("COUNT", "count"),
)
OBJECTS: Final = (
    Column("KIND", "kind"),
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("HEALTH", "health"),
    Column("STATE", "state"),
    Column("SINCE", "since", wide=True),
    Column("MESSAGE", "message"),
)


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of every namespace.")
@click.option(
    "--limit", type=click.IntRange(0), default=20, help="Objects that are listed by name."
)
@output_option
@cluster_options
def top(
    all_namespaces: bool,
    limit: int,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Show how many objects are in which state, and those that are not as they should be."""
    place = None if all_namespaces else namespace
    found, unread, members = talk(kubeconfig, context, lambda client: _read(client, place))
    if len(unread) == len(KINDS):
        raise click.ClickException(
            "you may list none of the kinds here: --namespace names another place"
        )
    bad = not_good(found)
    counts, rows = count_states(found), [item.row() for item in bad[:limit]]
    if output in {"json", "yaml"}:
        waits = Health.WAITING.value
        whole = {
            "counts": counts,
            "failing": [row for row in rows if row["health"] != waits],
            "waiting": [row for row in rows if row["health"] == waits],
            "notListed": len(bad) - len(rows),
            **({"members": members} if members else {}),
        }
        text = json.dumps(whole, indent=2) if output == "json" else yaml.safe_dump(whole)
        echo(text.rstrip())
        return
    print_rows(counts, COUNTS, output)
    if members:
        echo("")
        print_rows(members, MEMBERS, output)
    if rows:
        echo("")
        print_rows(rows, OBJECTS, output)
    if len(bad) > len(rows):
        echo(f"and {len(bad) - len(rows)} more: --limit shows them")
    for kind in unread:
        echo(f"{kind}: you may not list them here", err=True)


async def _read(
    client: Client, namespace: str | None
) -> tuple[list[Summary], list[str], list[dict[str, Any]]]:
    """Return the objects, the kinds that the user may not list, and the managers that share objects. Kinds without a CRD are left out.

    Raises NoKindMatch where there is none of the kinds.
    """
    found: list[Summary] = []
    unread: list[str] = []
    served = 0
    for kind in KINDS:
        gvk = kind.gvk()
        try:
            listed = await client.list(gvk, namespace)
        except (NotFound, NoKindMatch):
            continue
        except Forbidden:
            unread.append(gvk.kind)
            continue
        served += 1
        found += [summary_of({**item, "kind": gvk.kind}) for item in listed]
    if not served and not unread:
        raise NoKindMatch(KINDS[0].gvk())
    return found, unread, await read_members(client, found, utc_now())


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
