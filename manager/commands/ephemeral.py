"""`manager ephemeral`: instances that live for a few days, such as one for a branch."""

import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from apis.cloud import Instance
from ctrlruntime.api import format_time
from ctrlruntime.client.errors import Conflict
from ctrlruntime.clock import utc_now
from internal.cloud import leases
from internal.cloud.ephemeral import Deployed, Ephemerals, NoName, current_branch, sanitized
from internal.cloud.leases import LeaseUnreadable, lease_end
from manager.commands.output import echo
from manager.flags.cluster import cluster_options, talk
from manager.flags.groups import with_options

T = TypeVar("T")
Command = Callable[..., Any]
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@click.group()
def ephemeral() -> None:
    """Instances with a lease: they are deleted when it ends."""


def duration(text: str) -> timedelta:
    """`90m`, `12h` or `4d`. Raises BadParameter."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if match is None:
        raise click.BadParameter(f"{text!r}: say a number and m, h or d, such as 12h or 4d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def named(command: Command) -> Command:
    """Of which instance, and where."""
    option = click.option("--name", help="Name of the instance. Default: that of the git branch.")
    return with_options(cluster_options(command), option)


def _name(given: str | None) -> str:
    try:
        return sanitized(current_branch(Path.cwd()) if given is None else given)
    except NoName as error:
        raise click.UsageError(str(error)) from error


def _ask(given: dict[str, Any], what: Callable[[Ephemerals], Awaitable[T]]) -> T:
    """Raise ClickException for what a rule is against."""
    namespace = given["namespace"]
    try:
        return talk(
            given["kubeconfig"],
            given["context"],
            lambda client: what(Ephemerals(client, namespace, utc_now)),
        )
    except leases.LeaseRefused as error:
        raise click.ClickException(str(error)) from error
    except Conflict as error:
        raise click.ClickException(f"it was changed just now, try again: {error}") from error


@ephemeral.command()
@click.argument("version")
@click.option(
    "--lease",
    default=f"{leases.FIRST.days}d",
    help="How long it lives, such as 12h or 2d; 4d at most.",
)
@click.option(
    "--from",
    "base",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="An Instance whose spec to start from.",
)
@named
def deploy(version: str, lease: str, base: Path | None, name: str | None, **given: object) -> None:
    """Deploy VERSION as an instance of its own. May be repeated while its creation is under way."""
    length, chosen = duration(lease), _name(name)
    if length > leases.LONGEST_EXTENSION:
        raise click.UsageError(f"a lease is {leases.LONGEST_EXTENSION.days} days at most")
    spec = {} if base is None else yaml.safe_load(base.read_text()).get("spec") or {}
    done: Deployed = _ask(given, lambda all_: all_.deploy(chosen, version, length, spec))
    word = "created" if done.created else "its creation is under way"
    echo(f"{chosen}: {word}, version {version}, until {_until(done.instance)}")
    echo(f"`manager ephemeral status --name {chosen}` says how it goes")


@ephemeral.command()
@click.argument("version")
@named
def upgrade(version: str, name: str | None, **given: object) -> None:
    """Bring an instance to VERSION."""
    chosen = _name(name)
    _ask(given, lambda all_: all_.upgrade(chosen, version))
    echo(f"{chosen}: is being upgraded to {version}")


@ephemeral.command()
@named
def delete(name: str | None, **given: object) -> None:
    """Delete an instance before its lease ends."""
    chosen = _name(name)
    _ask(given, lambda all_: all_.delete(chosen))
    echo(f"{chosen}: is being deleted")


@ephemeral.command("list")
@cluster_options
def list_all(**given: object) -> None:
    """All ephemeral instances."""
    for item in _ask(given, lambda all_: all_.list()):
        version = item.spec.wanted_version
        state = leases.state_of(item).partition(":")[0]
        echo(f"{item.metadata.name}\t{version}\t{state}\tuntil {_until(item)}")


@ephemeral.command()
@named
def status(name: str | None, **given: object) -> None:
    """How an instance is."""
    chosen = _name(name)
    found = _ask(given, lambda all_: all_.get(chosen))
    echo(f"{chosen}: {leases.state_of(found)}")
    echo(f"version {found.status.version or 'none yet'}, until {_until(found)}")


@ephemeral.command()
@click.option("--extend", help="By how much, such as 12h or 4d; 4d at a time at most.")
@click.option("--reduce", help="By how much.")
@click.option("--expire-now", is_flag=True, help="Let the instance go at once.")
@named
def lease(
    extend: str | None, reduce: str | None, expire_now: bool, name: str | None, **given: object
) -> None:
    """Extend, reduce or end the lease of an instance."""
    if sum(map(bool, (extend, reduce, expire_now))) != 1:
        raise click.UsageError("say one of --extend, --reduce and --expire-now")
    by = duration(extend or reduce or "1m")
    chosen = _name(name)
    before: list[str] = []

    def end_of(found: Instance) -> datetime:
        before.append(_until(found))
        if extend:
            return leases.extended(found, by, utc_now())
        return (
            leases.reduced(found, by, utc_now()) if reduce else leases.expired_now(found, utc_now())
        )

    after = _ask(given, lambda all_: all_.set_lease(chosen, end_of))
    echo(f"{chosen}\n- until {before[-1]}\n+ until {_until(after)}")


def _until(found: Instance) -> str:
    try:
        end = lease_end(found.spec.instance_features)
    except LeaseUnreadable:
        return "an unreadable time"
    return "ever" if end is None else format_time(end)
