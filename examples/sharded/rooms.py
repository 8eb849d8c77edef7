"""Rooms, divided among as many processes as there are: each is the work of one, and of another when that one goes.

Start it several times; see docs/sharding.md.
"""

import os

from ctrlruntime import (
    BUILTIN,
    ApiModel,
    Builder,
    Config,
    ElectionOptions,
    GroupVersionKind,
    Manager,
    ManagerOptions,
    Request,
    Resource,
    run,
)
from ctrlruntime.controller import slot_labels
from ctrlruntime.sharding import ShardingOptions

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


class RoomSpec(ApiModel):
    """Who stays there."""

    guests: int = 0


class RoomStatus(ApiModel):
    """Nothing is reported."""


class Room(Resource[RoomSpec, RoomStatus], group="hotel.example.com", version="v1"):
    """A room of which a door plate is kept: a ConfigMap of the same name."""


def setup(manager: Manager) -> None:
    """Add the controller."""

    async def reconcile(request: Request) -> None:
        room = manager.cache.get(Room, request.name, namespace=request.namespace)
        if room is None or room.metadata.deletion_timestamp:
            return
        wanted = {"guests": str(room.spec.guests)}
        plate = manager.cache.get(CONFIG_MAP, request.name, namespace=request.namespace)
        if plate is None:
            await manager.client.create(plate_of(room, wanted, slot_labels(request)))
        elif plate["data"] != wanted:
            await manager.client.patch(
                CONFIG_MAP, request.name, {"data": wanted}, namespace=request.namespace
            )

    Builder(manager).for_(Room).owns(CONFIG_MAP).sharded().build(reconcile)


def plate_of(room: Room, data: dict[str, str], labels: dict[str, str]) -> dict[str, object]:
    """Return a plate. Its label is the room's: without it the process would not see it."""
    owner = {
        "apiVersion": room.api_version,
        "kind": room.kind,
        "name": room.metadata.name,
        "uid": room.metadata.uid,
        "controller": True,
    }
    metadata = {
        "name": room.metadata.name,
        "namespace": room.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def main() -> None:
    """Run one process of the group; in a Deployment the Pod's name tells them apart."""
    namespace = os.environ.get("ROOMS_NAMESPACE", "default")
    options = ManagerOptions(
        name="rooms",
        namespaces=(namespace,),
        leader_election=True,
        leader_election_id="rooms",
        leader_election_namespace=namespace,
        election=ElectionOptions(retry_period=0.5),
        sharding=ShardingOptions(group="rooms", member=os.environ.get("ROOMS_MEMBER", "")),
        metrics_bind_address="0",
        health_bind_address="0",
        handle_signals=True,
    )
    manager = Manager(await Config.load(), options)
    setup(manager)
    await manager.start()


if __name__ == "__main__":
    run(main())
