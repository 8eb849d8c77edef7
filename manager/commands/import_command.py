"""`manager import`: adopt what Lynq, or the tenant operator it was before, made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import click
import yaml

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.client.client import Client
from internal.tenancy.importing import FORMERS, FormerOperator, translated
from internal.tenancy.shared.privileges import ForeignNamespaces, Privileges
from manager.commands.importing import (
    Import,
    Item,
    Standing,
    StillRunning,
    confirm,
    find_former,
    give_back,
    require_stopped,
    take_over,
)
from manager.commands.output import echo
from manager.flags.cluster import hub_options, talk
from manager.flags.privileges import privilege_options

MOST_SHOWN: Final = 20
SHOWN: Final = (
    Standing.CHANGED, Standing.FOREIGN, Standing.BROKEN, Standing.NO_TENANT, Standing.MISSING,
)  # fmt: skip
"""Standings whose objects are listed one by one: they need a person's attention."""
MODES: Final = {
    "manifests": "Print the former operator's registries and templates as those of this product, and do nothing else.",
    "yes": "Take over every object that the templates would leave as it is: one write each.",
    "undo": "Give back every object that was taken over and not confirmed.",
    "confirm": "Keep what was taken over for good: the record and the former operator's marks go.",
}


@click.command("import")
@hub_options
@click.option("-n", "--namespace", help="Only tenants of this namespace. Default: all.")
@click.option(
    "--from",
    "name",
    type=click.Choice(sorted(FORMERS)),
    help="Default: the one whose kinds are served.",
)
@click.option("--manifests", "mode", flag_value="manifests", help=MODES["manifests"])
@click.option("--yes", "mode", flag_value="yes", help=MODES["yes"])
@click.option("--undo", "mode", flag_value="undo", help=MODES["undo"])
@click.option("--confirm", "mode", flag_value="confirm", help=MODES["confirm"])
@click.option(
    "--accept-changes", is_flag=True, help="With --yes: also objects that the templates change."
)
@privilege_options
def import_tenants(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    name: str | None,
    mode: str | None,
    accept_changes: bool,
    allow_foreign_namespaces: frozenset[str],
    allow_kinds: frozenset[GroupKind],
    protected_namespaces: frozenset[str],
) -> None:
    """Adopt tenants of Lynq or of the former tenant operator.

    Without a mode it is a dry run: it prints what would be taken over, and what keeps an object from it. Give the
    flags about namespaces and kinds that the manager has. docs/moving-in.md is the guide.
    """
    privileges = Privileges(
        foreign=ForeignNamespaces.parse(allow_foreign_namespaces),
        kinds=allow_kinds,
        protected=protected_namespaces,
    )

    async def conversation(client: Client) -> None:
        former = await find_former(client, name)
        if former is None:
            raise click.ClickException(
                "this cluster serves no kinds of Lynq or of the former tenant operator"
            )
        if mode == "manifests":
            await _print_manifests(client, former, namespace)
        elif mode == "undo":
            echo(
                f"{await give_back(client, former, namespace)} objects given back to {former.name}"
            )
        elif mode == "confirm":
            echo(f"{await confirm(client, former, namespace)} objects confirmed")
        else:
            items = await Import(client, former, privileges, namespace).items()
            _print_items(items)
            if mode == "yes":
                await _take(client, former, items, accept_changes)
            else:
                echo("Nothing is changed without --yes.")

    try:
        talk(kubeconfig, context, conversation)
    except (StillRunning, ValueError) as error:
        raise click.ClickException(str(error)) from error


async def _take(
    client: Client, former: FormerOperator, items: list[Item], accept_changes: bool
) -> None:
    await require_stopped(client, former)
    wanted = {Standing.TAKE, Standing.CHANGED} if accept_changes else {Standing.TAKE}
    chosen = [each for each in items if each.standing in wanted]
    done = await take_over(client, chosen)
    echo(f"{done} objects taken over")
    if done < len(chosen):
        echo(f"{len(chosen) - done} changed meanwhile: run this again", err=True)
        raise click.exceptions.Exit(1)


def _print_items(items: list[Item]) -> None:
    counts = Counter(each.standing for each in items)
    for standing in Standing:
        if counts[standing]:
            echo(f"{counts[standing]:7}  {standing}")
    for standing in SHOWN:
        found = [each for each in items if each.standing is standing]
        if not found:
            continue
        echo(f"{standing}:")
        for each in found[:MOST_SHOWN]:
            echo(f"  {each.place}{f': {each.note}' if each.note else ''}")
        if len(found) > MOST_SHOWN:
            echo(f"  and {len(found) - MOST_SHOWN} more")


async def _print_manifests(client: Client, former: FormerOperator, namespace: str | None) -> None:
    found = [
        translated(former, each)
        for mapping in (former.registry, former.template)
        for each in await client.list(mapping, namespace)
    ]
    echo(yaml.safe_dump_all(found, sort_keys=False), nl=False)
