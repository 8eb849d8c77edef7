"""`manager freeze`: begin, list and end ChangeFreezes, with the user's own rights."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from apis.operations import ChangeFreeze, FrozenSystem
from ctrlruntime.api import format_time
from ctrlruntime.api.scalars import parse_duration, parse_time
from ctrlruntime.client.client import Client
from ctrlruntime.clock import utc_now
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.resources import removal_of, remove_object
from manager.cluster_flags import hub_options, talk
from manager.tables import Column, output_option, print_rows

LIST: Final = (
    Column("NAME", "name"),
    Column("PHASE", "phase"),
    Column("REASON", "reason"),
    Column("SYSTEMS", "systems"),
    Column("NAMESPACES", "namespaces", wide=True),
    Column("STARTS", "startsAt", wide=True),
    Column("UNTIL", "until"),
    Column("HELD", "held"),
)


@click.group()
def freeze() -> None:
    """Freezes of all changes: list, begin, end."""


@freeze.command("list")
@output_option
@hub_options
def list_freezes(output: str, kubeconfig: Path | None, context: str | None) -> None:
    """List freezes: which are active, until when, and how many changes they hold."""

    async def read(client: Client) -> list[ChangeFreeze]:
        return list(await client.list(ChangeFreeze))

    found = talk(kubeconfig, context, read)
    print_rows(sorted(map(freeze_row, found), key=lambda row: row["name"]), LIST, output)


@freeze.command()
@click.argument("name")
@click.option("--reason", required=True, help="Why; what waits repeats it.")
@click.option(
    "--until", "end", metavar="TIME|DURATION", help="Such as 2027-01-04T06:00:00Z, or 48h."
)
@click.option(
    "--system",
    "systems",
    type=click.Choice([item.value for item in FrozenSystem], case_sensitive=False),
    multiple=True,
    help="Hold the changes of this system only. Repeatable.",
)
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    help="Hold changes in this namespace only. Repeatable.",
)
@hub_options
def begin(
    name: str,
    reason: str,
    end: str | None,
    systems: tuple[str, ...],
    namespaces: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Stop every change that the manager makes by itself, from now on."""
    spec: dict[str, Any] = {"reason": reason}
    spec |= {"systems": list(systems)} if systems else {}
    spec |= {"namespaces": list(namespaces)} if namespaces else {}
    spec |= {"until": format_time(_end(end, utc_now()))} if end else {}
    gvk = ChangeFreeze.gvk()
    head = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": {"name": name}}
    talk(kubeconfig, context, lambda client: client.create({**head, "spec": spec}))
    click.echo(f"{name}: all changes wait until `manager freeze end {name}`, or its end")


@freeze.command("end")
@click.argument("name")
@hub_options
def end_freeze(name: str, kubeconfig: Path | None, context: str | None) -> None:
    """Delete a freeze: changes go on within seconds."""
    mapping = ChangeFreeze.mapping()
    removal = removal_of(mapping, {"name": name}, Cause.REQUESTED, Evidence.CERTAIN)
    talk(kubeconfig, context, lambda client: remove_object(client, mapping, removal))
    click.echo(f"{name}: deleted; changes go on unless another freeze holds them")


def _end(text: str, now: datetime) -> datetime:
    """Return the end that a time or a duration names. Raises BadParameter."""
    try:
        return parse_time(text)
    except ValueError:
        pass
    try:
        return (now + parse_duration(text)).replace(microsecond=0)
    except (ValueError, OverflowError):
        hint = "write a time with a zone such as 2027-01-04T06:00:00Z, or a duration such as 48h"
        raise click.BadParameter(f"{text!r}: {hint}", param_hint="--until") from None


def freeze_row(found: ChangeFreeze) -> dict[str, Any]:
    """Return a freeze as a row."""
    spec, held = found.spec, found.status.held
    counts = [held.tenancy, held.cloud, held.cosmos]
    return {
        "name": found.metadata.name or "",
        "phase": found.status.phase.value,
        "reason": spec.reason,
        "systems": ", ".join(item.value for item in spec.systems) or "all",
        "namespaces": ", ".join(spec.namespaces) or "all",
        "startsAt": "" if spec.starts_at is None else format_time(spec.starts_at),
        "until": "" if spec.until is None else format_time(spec.until),
        "held": sum(item or 0 for item in counts),
        "message": found.status.message,
    }
