"""`manager fleet forget`: what the hub has of a data plane that is lost for good goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import click

from apis.fleet import FleetConfig, Reason
from apis.fleet.fleetconfig import NAME
from apis.fleet.labels import DATA_PLANE, KUBECONFIG_SECRET, TARGET_NAMESPACE
from ctrlruntime.client import Client, NotFound
from internal.fleet.plane_answers import (
    Answers,
    Place,
    answers_of,
    place_unasked,
    place_with,
    places_of,
    unasked_message,
)
from manager.commands.other_planes import OtherPlanes
from manager.commands.output import echo
from manager.commands.plane_objects import OWNERS, PlaneObject, delete_objects, plane_objects
from manager.commands.plane_stacks import living_advice
from manager.flags.cluster import hub_options, talk

SHOWN: Final = 10
"""Owners that are named; of more the number is given."""


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
@click.option(
    "--elsewhere",
    is_flag=True,
    help="Delete also what may be of owners that another data plane has by now.",
)
def forget(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    data_plane: str,
    typed: int | None,
    elsewhere: bool,
) -> None:
    """Delete what the hub has of the data plane of a target NAMESPACE that is lost for good.

    It refuses while a namespace or the FleetConfig has that data plane, while it answers, and where it cannot be asked
    although there is a kubeconfig. Nor does it delete what another data plane has the owner of, by kind, namespace and name:
    a hub that was restored from before a move still records the former one.
    """

    async def conversation(client: Client) -> None:
        plane = await lost_plane(client, namespace, data_plane)
        found = await plane_objects(client, plane)
        deleted = [each for each in found if not each.retained]
        echo(_summary(plane, deleted, len(found) - len(deleted)))
        if deleted and not elsewhere:
            await _check_owners(client, plane, {each.owner for each in deleted})
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


async def lost_plane(client: Client, namespace: str, given: str) -> str:
    """Return the id of a data plane that nothing on the hub has any more, and that does not answer.

    Raises ClickException with what to do, and the client's errors.
    """
    places = await places_of(client)
    here = next((each for each in places if each.name == namespace), None)
    plane = _named_plane(here, namespace, given)
    asked = {each for each in places if each.plane or each.label or each is here}
    answers = await answers_of(client, asked)
    await _check_silent(client, plane, answers)
    _check_unlabelled(plane, places, answers)
    _check_asked(plane, namespace, places, answers)
    await _check_status(client, plane, namespace, places)
    return plane


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


async def _check_silent(client: Client, plane: str, answers: Answers) -> None:
    """Raise ClickException if the data plane answers, with what to do about its workloads."""
    if place := place_with(plane, answers):
        raise click.ClickException(await living_advice(client, place, plane))


def _check_asked(plane: str, namespace: str, places: Sequence[Place], answers: Answers) -> None:
    """Raise ClickException if the data plane may be one that there is no way to ask."""
    answer = answers.get(namespace)
    if isinstance(answer, str):
        raise click.ClickException(
            f"the kubeconfig of namespace {namespace} leads to data plane {answer}, so whether {plane} is lost is not known; "
            f"put its kubeconfig there: kubectl edit secret {KUBECONFIG_SECRET} -n {namespace}"
        )
    if place := place_unasked(plane, places, answers, named=namespace):
        raise click.ClickException(unasked_message(plane, "is lost", place))


async def _check_owners(client: Client, plane: str, owners: Collection[str]) -> None:
    """Raise ClickException if other data planes have some of the owners, or cannot be asked."""
    kinds = {str(each.gvk().group_kind): each.mapping() for each in OWNERS}
    found, unasked = await OtherPlanes(hub=client, own=plane, kinds=kinds).holders(owners)
    if found:
        names = sorted(found)
        shown = names[:SHOWN] + [f"and {len(names) - SHOWN} more"][: len(names) > SHOWN]
        place = found[names[0]]
        raise click.ClickException(
            f"the data plane of namespace {place} has owners of these names, so they may have moved there: {', '.join(shown)}. "
            f"Give it what they have on the hub: manager fleet adopt {plane} --to {place} ; if they are others of the same "
            "name, run this again with --elsewhere. Nothing was changed"
        )
    if unasked:
        raise click.ClickException(
            f"whether other data planes have owners of {plane} by now is not known: there is no answer by the kubeconfig of "
            f"namespace {', '.join(unasked)}; correct it, or run this again with --elsewhere. Nothing was changed"
        )


def _check_unlabelled(plane: str, places: Sequence[Place], answers: Answers) -> None:
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
    """Raise ClickException while the FleetConfig reports that the data plane answers, if only that it refuses."""
    try:
        config = await client.get(FleetConfig, NAME)
    except NotFound:
        return
    names = {namespace} | {each.name for each in places if each.plane == plane}
    for entry in config.status.target_namespaces:
        if entry.name in names and entry.reason != Reason.UNREACHABLE:
            raise click.ClickException(
                f"the FleetConfig reports that the data plane of namespace {entry.name} is up ({entry.reason}): it is not "
                f"lost; look at `kubectl get fleetconfig {NAME} -o yaml`, and run this again once that entry is gone"
            )
