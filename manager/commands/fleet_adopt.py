"""`manager fleet adopt`: workloads of a data plane that was replaced go over to the new one, and stay what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from apis.fleet.labels import DATA_PLANE, DATA_PLANE_ID, TARGET_NAMESPACE
from ctrlruntime.api import BUILTIN, RESTMapping
from ctrlruntime.client import Client, Conflict, NotFound
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from internal.fleet.adoption import Adoption, owner_kinds, plan_adoption
from internal.fleet.hub import parallel_label
from internal.fleet.plane_answers import (
    answers_of,
    place_unasked,
    place_with,
    places_of,
    unasked_message,
)
from internal.fleet.plane_check import NAMESPACE
from internal.fleet.pods import WORKLOADS
from internal.fleet.routing import FOLLOWERS
from internal.fleet.targets import TRUE
from manager.commands.output import echo
from manager.commands.plane_clients import proved_plane
from manager.commands.plane_stacks import running_stack
from manager.flags.cluster import hub_options, talk
from manager.kinds import PLANE_KINDS

ADOPTED_KINDS: Final = (
    NAMESPACE,
    VOLUME_SNAPSHOT,
    *(each for each in BUILTIN.values() if each.gvk.group_kind in WORKLOADS | FOLLOWERS),
)
"""All kinds that stacks write on the hub."""
ROUNDS: Final = 20
"""Times that objects are read again which were changed by others meanwhile."""
NAMED: Final = 10
"""Owners that are named; of more the number is given."""

HubObject = tuple[RESTMapping, Mapping[str, Any]]


@click.command()
@hub_options
@click.argument("former", metavar="OLD-ID")
@click.option(
    "--to", "target", required=True, help="Target namespace of the data plane that took its place."
)
@click.option("--dry-run", is_flag=True, help="Print what would be adopted, and write nothing.")
def adopt(
    kubeconfig: Path | None, context: str | None, former: str, target: str, dry_run: bool
) -> None:
    """Give the workloads of the replaced data plane OLD-ID to the one that took its place.

    For a data plane that was restored as another server: its Tenants, CosmosFullNodes and Instances are there, and what they have on
    the hub records the former one (`fleet top` lists its id). Only labels and annotations change: nothing is deleted, made
    anew or rolled. What has no owner on the new data plane stays as it is. Run it again after an interruption.
    """

    async def conversation(hub: Client) -> None:
        async with proved_plane(hub, target) as (plane, identity):
            if identity == former:
                raise click.ClickException(
                    f"namespace {target} has data plane {former} itself: nothing to adopt"
                )
            await _check_former(hub, former, target)
            await _check_stack(plane, target)
            await _adopt(hub, plane, former, identity, target, dry_run=dry_run)

    talk(kubeconfig, context, conversation)


async def _adopt(
    hub: Client, plane: Client, former: str, identity: str, target: str, *, dry_run: bool
) -> None:
    """Hand everything over that has an owner. Raises ClickException while others keep changing it."""
    found = await _plan(hub, plane, former, identity)
    echo(summary(found, former, identity, target))
    for hint in await _missing_grants(hub, found, target):
        echo(hint)
    if dry_run:
        echo("Dry run: nothing was changed.")
        return
    adopted = 0
    for _ in range(ROUNDS):
        if not found.objects:
            echo(f"{adopted} object(s) adopted.")
            return
        for each in found.objects:
            namespace = each.metadata.get("namespace")
            try:
                await hub.patch(
                    each.mapping,
                    each.metadata["name"],
                    each.patch,
                    namespace=namespace,
                    metadata_only=True,
                )
            except (NotFound, Conflict):
                continue  # not what was read: read it again
            adopted += 1
        found = await _plan(hub, plane, former, identity)
    raise click.ClickException(
        f"{adopted} object(s) adopted, {len(found.objects)} are changed by others all the time; run this again"
    )


async def _plan(hub: Client, plane: Client, former: str, identity: str) -> Adoption:
    objects = await _hub_objects(hub, former)
    living: dict[tuple[str, str, str], str] = {}
    wanted = owner_kinds(objects)
    for kind in PLANE_KINDS:
        name = str(kind.gvk().group_kind)
        if name in wanted:
            for metadata in await _metadata(plane, kind.mapping()):
                if not metadata.get("deletionTimestamp"):
                    place = (name, metadata.get("namespace", ""), metadata["name"])
                    living[place] = metadata["uid"]
    return plan_adoption(objects, living, former, identity)


async def _hub_objects(hub: Client, former: str) -> list[HubObject]:
    found: list[HubObject] = []
    for mapping in ADOPTED_KINDS:
        listed = await _metadata(hub, mapping, f"{DATA_PLANE}={former}")
        found += [(mapping, metadata) for metadata in listed]
    return found


async def _metadata(
    client: Client, mapping: RESTMapping, labels: str | None = None
) -> list[Mapping[str, Any]]:
    """List the metadata of all objects of a kind; none where it is not served."""
    try:
        found = await client.list(mapping, labels=labels, metadata_only=True)
    except NotFound:
        return []
    return [each["metadata"] for each in found]


def summary(found: Adoption, former: str, identity: str, target: str) -> str:
    """Return what is adopted, and what stays and why."""
    kinds = Counter(each.mapping.gvk.kind for each in found.objects)
    owners = {each.owner for each in found.objects}
    lines = [f"Of data plane {former}, to {identity} of {target}, {len(owners)} owner(s) with:"]
    lines += [f"{number:>7} {kind}" for kind, number in sorted(kinds.items())] or ["      0"]
    if found.left:
        names = sorted(found.left)
        shown = names[:NAMED] + [f"and {len(names) - NAMED} more"][: len(names) > NAMED]
        lines.append(
            f"{found.left.total()} object(s) stay as they are, as {identity} does not have their owners: {', '.join(shown)}. "
            "Create these there and run this again"
        )
    if found.unowned:
        lines.append(f"{found.unowned} object(s) that record no owner there stay as they are.")
    return "\n".join(lines)


async def _missing_grants(hub: Client, found: Adoption, target: str) -> list[str]:
    """Return the commands that let the stack write where it gets objects, for the namespaces that lack the label."""
    label = parallel_label(target)
    places = sorted({each.metadata.get("namespace", "") for each in found.objects} - {""})
    namespaces = await _metadata(hub, NAMESPACE)
    granted = {each["name"] for each in namespaces if (each.get("labels") or {}).get(label) == TRUE}
    return [
        f"The stack of {target} may not write there yet: kubectl label namespace {place} {label}=true"
        for place in places
        if place not in granted
    ]


async def _check_stack(plane: Client, target: str) -> None:
    """Raise ClickException if the stack of another namespace, perhaps the former one, works on the new data plane."""
    lease = await running_stack(plane)
    if lease.holder and lease.namespace != target:
        raise click.ClickException(
            f"the data plane of {target} has the stack {lease.holder}, by its Lease; remove that, or adopt to its namespace. "
            "Nothing was changed"
        )


async def _check_former(hub: Client, former: str, target: str) -> None:
    """Raise ClickException while the former data plane answers, cannot be asked, or may have a stack of this hub."""
    places = [each for each in await places_of(hub) if each.name != target]
    for each in places:
        if each.plane == former and each.label:
            raise click.ClickException(
                f"namespace {each.name} has data plane {former} and the label {each.label}, so its stack may be at work: kubectl "
                f"label namespace {each.name} {DATA_PLANE}- ; wait until the operator has removed {TARGET_NAMESPACE} and "
                f"{DATA_PLANE_ID}, and run this again. Nothing was changed"
            )
    answers = await answers_of(hub, {each for each in places if each.plane or each.label})
    answers.pop(target, None)
    if place := place_with(former, answers):
        raise click.ClickException(
            f"data plane {former} answers (kubeconfig of namespace {place}): it was not replaced. Its Tenants are moved one by one "
            "(see manager fleet move --help); to give up the data plane, stop its API server first. Nothing was changed"
        )
    if place := place_unasked(former, places, answers):
        message = unasked_message(former, "was replaced", place)
        raise click.ClickException(
            f"{message}, or, if namespace {place} does not have that data plane, delete the Secret, take the label {DATA_PLANE} off, and wait until "
            f"{DATA_PLANE_ID} is gone (without a stack that removes it: kubectl annotate namespace {place} {DATA_PLANE_ID}-). Nothing was changed"
        )
