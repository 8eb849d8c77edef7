"""`manager fleet`: data planes as the hub has them, with the user's own rights."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Final

import click

from apis.fleet import FleetConfig, TargetNamespace
from apis.fleet.fleetconfig import NAME
from apis.fleet.labels import DATA_PLANE, DATA_PLANE_ID, TARGET_NAMESPACE
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client import Client, NotFound
from ctrlruntime.resources import owner_key
from internal.fleet.metrics import is_up
from internal.fleet.plane_answers import ANSWER
from internal.fleet.plane_check import FAILURES, NAMESPACE, identify
from internal.fleet.targets import TRUE
from manager.commands.fleet_adopt import adopt
from manager.commands.fleet_forget import forget
from manager.commands.fleet_move import move
from manager.commands.plane_clients import connect_plane
from manager.commands.plane_objects import OWNERS, plane_objects
from manager.commands.tables import Column, output_option, print_rows
from manager.flags.cluster import hub_options, talk

_COLUMNS: Final = (
    Column("NAMESPACE", "namespace"),
    Column("DATA PLANE", "dataPlane"),
    Column("UP", "up"),
    Column("OBJECTS", "objects"),
    Column("TENANTS", "tenants"),
    Column("ORPHANS", "orphans"),
    Column("REASON", "reason"),
    Column("MESSAGE", "message", wide=True),
)


@click.group()
def fleet() -> None:
    """List data planes, move a Tenant between two, adopt what one has that was replaced, and forget one that is lost."""


@fleet.command()
@hub_options
@output_option
@click.option(
    "--orphans",
    is_flag=True,
    help="Request of each data plane which owners of objects on the hub it has, such as Tenants, CosmosFullNodes and Instances.",
)
def top(kubeconfig: Path | None, context: str | None, output: str, orphans: bool) -> None:
    """List data planes: what the hub has of each, and how its stack is.

    A row without a namespace is of a data plane that has no target namespace any more.
    """

    async def rows(client: Client) -> list[dict[str, Any]]:
        return await _rows(client, orphans=orphans)

    print_rows(talk(kubeconfig, context, rows), _COLUMNS, output)


fleet.add_command(forget)
fleet.add_command(move)
fleet.add_command(adopt)


async def _rows(client: Client, *, orphans: bool) -> list[dict[str, Any]]:
    config = await client.get(FleetConfig, NAME)
    entries = {each.name: each for each in config.status.target_namespaces}
    objects = await plane_objects(client)
    planes = await _target_planes(client)
    counted = Counter(each.data_plane for each in objects)
    owners: dict[str, set[str]] = {}
    for each in objects:
        owners.setdefault(each.data_plane, set()).add(each.owner)
    lost = dict.fromkeys(counted.keys() - set(planes.values()), "")
    living = await _living(client, planes) if orphans else {}
    named = [(name, plane) for name, plane in sorted(planes.items())]
    named += [(name, plane) for plane, name in sorted(lost.items())]
    return [
        {
            "namespace": name,
            "dataPlane": plane,
            "up": name in entries and is_up(entries[name].reason),
            "objects": counted.get(plane, 0),
            "tenants": len(owners.get(plane, ())),
            "orphans": _orphans(owners.get(plane, set()), living.get(name)),
            **_state(entries.get(name)),
        }
        for name, plane in named
    ]


def _state(entry: TargetNamespace | None) -> dict[str, str]:
    if entry is None:
        return {"reason": "", "message": ""}
    return {"reason": entry.reason, "message": entry.message}


def _orphans(owners: set[str], living: set[str] | None) -> int | None:
    return None if living is None else len(owners - living)


async def _target_planes(client: Client) -> dict[str, str]:
    """Return the data plane's id of each target namespace; empty where it is not known yet."""
    planes: dict[str, str] = {}
    for item in await client.list(NAMESPACE, metadata_only=True):
        metadata = item["metadata"]
        labels = metadata.get("labels") or {}
        if TRUE in {labels.get(DATA_PLANE), labels.get(TARGET_NAMESPACE)}:
            found = (metadata.get("annotations") or {}).get(DATA_PLANE_ID, "")
            planes[str(metadata["name"])] = str(found)
    return planes


async def _living(client: Client, planes: dict[str, str]) -> dict[str, set[str]]:
    """Return the keys of the owners on each data plane that answers; of kinds that it does not serve there are none."""

    async def look(name: str, identity: str) -> tuple[str, set[str] | None]:
        plane = await connect_plane(client, name)
        if plane is None:
            return name, None
        try:
            async with asyncio.timeout(ANSWER), plane:
                if identity and await identify(plane) != identity:
                    return name, None  # what another data plane has is no orphan's answer
                found = [await _keys(plane, kind.mapping(), identity) for kind in OWNERS]
        except FAILURES:
            return name, None
        return name, set().union(*found)

    looks = await asyncio.gather(*(look(*each) for each in planes.items()))
    return {name: found for name, found in looks if found is not None}


async def _keys(plane: Client, mapping: RESTMapping, identity: str) -> set[str]:
    """Return the keys of all objects of a kind, as the hub records them. Raises the client's errors."""
    try:
        found = await plane.list(mapping, metadata_only=True)
    except NotFound:
        return set()
    return {
        owner_key(
            mapping.gvk,
            each["metadata"]["name"],
            namespace=each["metadata"]["namespace"],
            cluster=identity,
        )
        for each in found
    }
