"""`manager fleet forget`: what the hub has of a data plane that is lost for good goes."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

import click

from apis.fleet import FleetConfig
from apis.fleet.fleetconfig import NAME
from apis.fleet.labels import DATA_PLANE, DATA_PLANE_ID, KUBECONFIG_SECRET, TARGET_NAMESPACE
from ctrlruntime.client import Client, NotFound, TransportError
from internal.fleet.metrics import is_up
from internal.fleet.plane_check import FAILURES, NAMESPACE, identify
from internal.fleet.targets import TRUE, TargetError
from manager.commands.output import echo
from manager.commands.plane_clients import SECRET, plane_client
from manager.commands.plane_objects import PlaneObject, delete_objects, plane_objects
from manager.commands.plane_stacks import living_advice
from manager.flags.cluster import hub_options, talk

ANSWER: Final = 10.0
"""Seconds that a data plane has for an answer."""


@click.command()
@hub_options
@click.argument("namespace")
@click.option(
    "--data-plane",
    default="",
    help="Its id, where the namespace is gone or had its stack removed: `fleet top`.",
)
@click.option(
    "--count", "typed", type=int, help="The number of objects to delete, instead of typing it."
)
def forget(
    kubeconfig: Path | None, context: str | None, namespace: str, data_plane: str, typed: int | None
) -> None:
    """Delete what the hub has of the data plane of a target NAMESPACE that is lost for good.

    It refuses while a namespace or the FleetConfig has that data plane, while it answers, and where it cannot be asked
    although there is a kubeconfig.
    """

    async def conversation(client: Client) -> None:
        plane = await lost_plane(client, namespace, data_plane)
        found = await plane_objects(client, plane)
        deleted = [each for each in found if not each.retained]
        echo(_summary(plane, deleted, len(found) - len(deleted)))
        if deleted:
            _confirm(len(deleted), typed)
            gone = await delete_objects(client, deleted)
            echo(f"{gone} object(s) deleted.")

    talk(kubeconfig, context, conversation)


def _confirm(objects: int, typed: int | None) -> None:
    if typed is None:
        typed = click.prompt(f"Type the number of objects ({objects}) to delete them", type=int)
    if typed != objects:
        raise click.ClickException(f"there are {objects} objects, not {typed}; nothing was changed")


def _summary(plane: str, deleted: Sequence[PlaneObject], retained: int) -> str:
    kinds = Counter(each.mapping.gvk.kind for each in deleted)
    lines = [f"Objects of data plane {plane} on the hub:"]
    lines += [f"{number:>7} {kind}" for kind, number in sorted(kinds.items())] or ["      0"]
    if retained:
        lines.append(
            f"{retained} more stay by their deletion policy, or as no stack has written them."
        )
    return "\n".join(lines)


class Silence(Enum):
    """Why there is no id of a data plane."""

    NO_ANSWER = auto()
    """Nothing answers at its address."""
    NOT_ASKED = auto()
    """There is no way to ask: no usable kubeconfig, credentials that are refused, another server's certificate."""


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace of the hub, and the data plane that it records."""

    name: str
    plane: str
    """Empty if none is recorded."""
    label: str
    """The label by which it has a stack, or had one that is not gone yet; empty without."""


async def lost_plane(client: Client, namespace: str, given: str) -> str:
    """Return the id of a data plane that nothing on the hub has any more, and that does not answer.

    Raises ClickException with what to do, and the client's errors.
    """
    places = [_place(each["metadata"]) for each in await client.list(NAMESPACE, metadata_only=True)]
    here = next((each for each in places if each.name == namespace), None)
    plane = _named_plane(here, namespace, given)
    answers = await _answers(
        client, {each for each in places if each.plane or each.label or each is here}
    )
    await _check_silent(client, plane, answers)
    _check_unlabelled(plane, places, answers)
    _check_asked(plane, namespace, places, answers)
    await _check_status(client, plane, namespace, places)
    return plane


def _place(metadata: Mapping[str, Any]) -> Place:
    labels = metadata.get("labels") or {}
    label = next((each for each in (DATA_PLANE, TARGET_NAMESPACE) if labels.get(each) == TRUE), "")
    recorded = (metadata.get("annotations") or {}).get(DATA_PLANE_ID, "")
    return Place(str(metadata["name"]), str(recorded), label)


def _named_plane(here: Place | None, namespace: str, given: str) -> str:
    """Return the id of the data plane that the command names. Raises ClickException."""
    recorded = here.plane if here is not None else ""
    if given and recorded and given != recorded:
        raise click.ClickException(f"namespace {namespace} has data plane {recorded}, not {given}")
    plane = recorded or given
    if plane:
        return plane
    if here is None:
        raise click.ClickException(
            f"the hub has no namespace {namespace}; name the data plane with --data-plane ID, from `fleet top`"
        )
    raise click.ClickException(
        f"namespace {namespace} has no data plane, or had its stack removed; name the data plane with "
        "--data-plane ID, from `fleet top`"
    )


async def _answers(client: Client, places: Collection[Place]) -> dict[str, str | Silence]:
    """Return what answers by the kubeconfig of each namespace that has one, and of these."""
    secrets = {
        str(each["metadata"]["namespace"]): each.get("data") or {}
        for each in await client.list(SECRET, fields=f"metadata.name={KUBECONFIG_SECRET}")
    }
    names = secrets.keys() | {each.name for each in places}
    found = await asyncio.gather(*(_answer(secrets.get(each)) for each in names))
    return dict(zip(names, found, strict=True))


async def _answer(data: Mapping[str, Any] | None) -> str | Silence:
    """Return the id of the data plane that a kubeconfig leads to."""
    if data is None:
        return Silence.NOT_ASKED
    try:
        async with asyncio.timeout(ANSWER), plane_client(data) as plane:
            return await identify(plane)
    except TargetError:
        return Silence.NOT_ASKED
    except FAILURES as error:
        # A refusal is an answer, and so is the certificate of whatever is at the address.
        silent = isinstance(error, TransportError | TimeoutError) and not _is_of_tls(error)
        return Silence.NO_ANSWER if silent else Silence.NOT_ASKED


def _is_of_tls(error: BaseException) -> bool:
    """Whether a connection failed over certificates."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


async def _check_silent(client: Client, plane: str, answers: Mapping[str, str | Silence]) -> None:
    """Raise ClickException if the data plane answers, with what to do about its workloads."""
    for name, answer in sorted(answers.items()):
        if answer == plane:
            raise click.ClickException(await living_advice(client, name, plane))


def _check_asked(
    plane: str, namespace: str, places: Sequence[Place], answers: Mapping[str, str | Silence]
) -> None:
    """Raise ClickException if the data plane may be one that there is no way to ask."""
    recorded = {each.name: each.plane for each in places}
    for name, answer in sorted(answers.items()):
        if name == namespace and isinstance(answer, str):
            raise click.ClickException(
                f"the kubeconfig of namespace {name} leads to data plane {answer}, so whether {plane} is lost is not known; "
                f"put its kubeconfig there: kubectl edit secret {KUBECONFIG_SECRET} -n {name}"
            )
        possible = name == namespace or recorded.get(name, "") in {"", plane}
        if answer is Silence.NOT_ASKED and possible:
            raise click.ClickException(
                f"whether data plane {plane} is lost is not known: namespace {name} may have it, and has no kubeconfig that can "
                f"be used; put a valid one there: kubectl edit secret {KUBECONFIG_SECRET} -n {name}"
            )


def _check_unlabelled(
    plane: str, places: Sequence[Place], answers: Mapping[str, str | Silence]
) -> None:
    """Raise ClickException while a namespace has, or may have, a stack for the data plane that is not gone yet."""
    for each in places:
        other = not each.plane and isinstance(answers.get(each.name), str)
        if each.label and each.plane in {plane, ""} and not other:
            raise click.ClickException(
                f"namespace {each.name} has the label {each.label}=true, so a stack works on data plane {plane}, or is being "
                f"removed: kubectl label namespace {each.name} {DATA_PLANE}- ; wait until the operator has removed "
                f"{TARGET_NAMESPACE}, and run this again with --data-plane {plane}"
            )


async def _check_status(
    client: Client, plane: str, namespace: str, places: Sequence[Place]
) -> None:
    """Raise ClickException while the FleetConfig reports that the data plane is up."""
    try:
        config = await client.get(FleetConfig, NAME)
    except NotFound:
        return
    names = {namespace} | {each.name for each in places if each.plane == plane}
    for entry in config.status.target_namespaces:
        if entry.name in names and is_up(entry.reason):
            raise click.ClickException(
                f"the FleetConfig reports that the data plane of namespace {entry.name} is up ({entry.reason}): it is not "
                f"lost; look at `kubectl get fleetconfig {NAME} -o yaml`, and run this again once that entry is gone"
            )
