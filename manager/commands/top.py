"""`manager top`: the whole control plane on one page, failures first, with the user's own rights."""

from __future__ import annotations

import json
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
from ctrlruntime.client import Client, Forbidden, NoKindMatch, NotFound
from ctrlruntime.clock import utc_now
from manager.commands.output import echo
from manager.commands.summaries import Summary, count_states, not_good, summary_of
from manager.commands.tables import Column, output_option, print_rows
from manager.commands.top_members import MEMBERS, read_members
from manager.flags.cluster import cluster_options, talk

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
