"""`manager freeze`: begin, list and end ChangeFreezes, with the user's own rights."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from apis.operations import (
    ChangeFreeze,
    Exemption,
    ExemptionState,
    ExemptionStatus,
    FrozenKind,
    FrozenSystem,
)
from ctrlruntime.api import format_time, parse_duration, parse_time
from ctrlruntime.client import Client, NotFound, retry_on_conflict
from ctrlruntime.clock import utc_now
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.resources import removal_of, remove_object
from manager.commands.output import echo
from manager.commands.tables import Column, output_option, print_rows
from manager.flags.cluster import cluster_options, hub_options, talk

LIST: Final = (
    Column("NAME", "name"),
    Column("PHASE", "phase"),
    Column("REASON", "reason"),
    Column("SYSTEMS", "systems"),
    Column("NAMESPACES", "namespaces", wide=True),
    Column("STARTS", "startsAt", wide=True),
    Column("UNTIL", "until"),
    Column("HELD", "held"),
    Column("EXEMPT", "exempt"),
    Column("REQUESTED", "requested"),
    Column("EXEMPTIONS", "exemptions", wide=True),
)


@click.group()
def freeze() -> None:
    """Freezes of all changes: list, begin, exempt, end."""


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
    echo(f"{name}: all changes wait until `manager freeze end {name}`, or its end")


@freeze.command()
@click.argument("name")
@click.argument("target", metavar="KIND/OBJECT")
@click.option("--reason", default="", help="Why; the freeze's status and an event repeat it.")
@click.option("--revoke", is_flag=True, help="Take the exemption away: the freeze holds it again.")
@cluster_options
def exempt(
    name: str,
    target: str,
    reason: str,
    revoke: bool,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Let the changes of one object go on in a freeze, such as Instance/src-1 or TenantRegistry/shop."""
    kind, object_name = _target(target)

    async def change(client: Client) -> str:
        by = "" if revoke else await _user(client)
        item = Exemption(kind=kind, namespace=namespace, name=object_name, reason=reason, by=by)
        return await retry_on_conflict(lambda: _exempt(client, name, item, revoke=revoke))

    echo(f"{name}: {talk(kubeconfig, context, change)}")


async def _exempt(client: Client, name: str, item: Exemption, *, revoke: bool) -> str:
    """Write the exemptions of a freeze, unless it changed since it was read. Raises the client's errors."""
    found = await client.get(ChangeFreeze, name)
    others = [each for each in found.spec.exempt if _place(each) != _place(item)]
    if revoke and len(others) == len(found.spec.exempt):
        raise click.ClickException(f"{name}: {_place(item)} has no exemption")
    items = [each.model_dump(mode="json", exclude_defaults=True) for each in others]
    items += [] if revoke else [item.model_dump(mode="json", exclude_defaults=True)]
    version = {"resourceVersion": found.metadata.resource_version}
    await client.patch(ChangeFreeze, name, {"metadata": version, "spec": {"exempt": items}})
    return f"{_place(item)} is {'held again' if revoke else 'not held any more'}"


def _target(text: str) -> tuple[FrozenKind, str]:
    """Return kind and name of `KIND/OBJECT`. Raises BadParameter."""
    kind, _, name = text.partition("/")
    known = {item.value.lower(): item for item in FrozenKind}
    if kind.lower() not in known or not name:
        kinds = ", ".join(item.value for item in FrozenKind)
        raise click.BadParameter(
            f"{text!r}: write a kind and a name, such as Instance/src-1. Kinds: {kinds}",
            param_hint="KIND/OBJECT",
        )
    return known[kind.lower()], name


async def _user(client: Client) -> str:
    """Return the user name that the server has for this client; empty if it does not tell."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        made: dict[str, Any] = await client.create({**review, "metadata": {}})
    except NotFound:  # before Kubernetes 1.28
        return ""
    return str(made.get("status", {}).get("userInfo", {}).get("username", ""))[:256]


def _place(item: Exemption) -> str:
    """Return which object an exemption is of."""
    return f"{item.kind.value} {item.namespace}/{item.name}"


@freeze.command("end")
@click.argument("name")
@hub_options
def end_freeze(name: str, kubeconfig: Path | None, context: str | None) -> None:
    """Delete a freeze: changes go on within seconds."""
    mapping = ChangeFreeze.mapping()
    removal = removal_of(mapping, {"name": name}, Cause.REQUESTED, Evidence.CERTAIN)
    talk(kubeconfig, context, lambda client: remove_object(client, mapping, removal))
    echo(f"{name}: deleted; changes go on unless another freeze holds them")


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
    states = [item.state for item in found.status.exemptions]
    return {
        "name": found.metadata.name or "",
        "phase": found.status.phase.value,
        "reason": spec.reason,
        "systems": ", ".join(item.value for item in spec.systems) or "all",
        "namespaces": ", ".join(spec.namespaces) or "all",
        "startsAt": "" if spec.starts_at is None else format_time(spec.starts_at),
        "until": "" if spec.until is None else format_time(spec.until),
        "held": sum(item or 0 for item in counts),
        "exempt": len(spec.exempt),
        "requested": states.count(ExemptionState.REQUESTED),
        "exemptions": "; ".join(map(_exemption, found.status.exemptions)),
        "message": found.status.message,
    }


def _exemption(item: ExemptionStatus) -> str:
    """Return an exemption in words."""
    by = f" by {item.by}" if item.by else ""
    why = f" ({item.reason})" if item.reason else ""
    return f"{_place(item)} {item.state.value.lower()}{by}{why}"
