"""The example with four processes, of which one is killed and one is stopped; a proxy counts who wrote what."""

from __future__ import annotations

import os
import sys
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment, administrator
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Mark
from ctrlruntime.sharding.assignment import Assignment, decode
from ctrlruntime.sharding.leases import ASSIGNED, annotation, member_of
from ctrlruntime.sharding.slots import ALL_SLOTS, slot_of
from tests.real_servers import KUBE_APISERVER
from tests.support.waiting import eventually

PROGRAM: Final = Path(__file__).parents[2] / "examples" / "sharded" / "rooms.py"
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
ROOM = GroupVersionKind("hotel.example.com", "v1", "Room")
ROOMS: Final = tuple(f"room-{number}" for number in range(32))
MEMBERS: Final = ("a", "b", "c", "d")


@dataclass(slots=True)
class Hotel:
    """Processes of the program, each a user of its own."""

    environment: Environment
    client: Client
    folder: Path
    namespace: str = field(default_factory=lambda: f"hotel-{uuid.uuid4().hex[:8]}")
    members: dict[str, ChildProcess] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a member."""
        self.members[name] = ChildProcess.spawn(
            [sys.executable, str(PROGRAM)],
            log=self.folder / f"{name}.log",
            env={
                **os.environ,
                "KUBECONFIG": str(self.environment.kubeconfig(name)),
                "ROOMS_NAMESPACE": self.namespace,
                "ROOMS_MEMBER": name,
            },
        )

    async def set_guests(self, guests: int) -> None:
        """Change every room."""
        for name in ROOMS:
            patch = {"spec": {"guests": guests}}
            await self.client.patch(ROOM, name, patch, namespace=self.namespace)

    async def shown(self, guests: int) -> None:
        """Wait until every plate shows it."""

        async def plates() -> dict[str, object]:
            found = await self.client.list(CONFIG_MAP, self.namespace)
            return {each["metadata"]["name"]: each.get("data") for each in found}

        wanted = {"guests": str(guests)}
        await eventually(
            plates,
            lambda found: all(found.get(name) == wanted for name in ROOMS),
        )

    async def assignment(self) -> Assignment:
        """Return who owns which slot."""
        return decode(annotation(await self.lease("rooms-slots"), ASSIGNED))

    async def lease(self, name: str) -> Manifest:
        """Return a Lease."""
        found: Manifest = await self.client.get(LEASE, name, namespace=self.namespace)
        return found

    async def divided(self) -> None:
        """Wait until each member owns its share and has acknowledged it, and none that is gone owns any."""

        async def seen() -> bool:
            assignment = await self.assignment()
            shares = {name: assignment.owned(name) for name in self.members}
            announced = {
                name: member_of(await self.lease(f"rooms-shard-{name}")) for name in self.members
            }
            return all(
                lease is not None and share and lease.announced.held == share
                for lease, share in zip(announced.values(), shares.values(), strict=True)
            ) and len(ALL_SLOTS) == sum(map(len, shares.values()))

        await eventually(seen, despite=Exception)

    async def kill(self, name: str) -> None:
        """Kill a member. Its Leases end after a second, not after as long as those need that a slow machine must not lose."""
        killed = self.members.pop(name)
        killed.kill()
        await killed.wait()
        for lease in ("rooms-shards", f"rooms-shard-{name}"):
            patch = {"spec": {"leaseDurationSeconds": 1}}
            await self.client.patch(LEASE, lease, patch, namespace=self.namespace)

    def mark(self) -> Mark:
        """Count from here on."""
        return self.environment.proxy.log.mark()

    def writers(self, since: Mark | None = None) -> dict[str, list[str]]:
        """Return for each plate who wrote it, once for each write."""
        found: dict[str, list[str]] = defaultdict(list)
        for each in self.environment.proxy.log.entries(since):
            written = each.resource == "configmaps" and each.verb in {"create", "patch"}
            if written and each.user in MEMBERS and each.namespace == self.namespace:
                found[each.name or "created"].append(each.user)
        return found

    def names(self, since: Mark) -> set[str]:
        """Return who wrote a plate."""
        return {name for each in self.writers(since).values() for name in each}

    def leader(self) -> str:
        """Return who wrote the assignment last."""
        entries = self.environment.proxy.log.entries()
        return [
            each.user for each in entries if each.name == "rooms-slots" and each.verb == "update"
        ][-1]

    async def close(self) -> None:
        """Kill what runs."""
        for process in self.members.values():
            process.kill()
            await process.wait()


@pytest.fixture(params=["embedded", KUBE_APISERVER])
async def hotel(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Hotel]:
    users = [administrator(name) for name in (*MEMBERS, "guest")]
    async with AsyncExitStack() as stack:
        if request.param == KUBE_APISERVER:
            made = request.getfixturevalue("real_server").environment(users=users, proxy=True)
        else:
            made = Environment(users=users, proxy=True)
        environment = await stack.enter_async_context(made)
        hotel = Hotel(environment, environment.client("guest"), tmp_path)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": hotel.namespace}}
        await hotel.client.create(namespace)
        stack.push_async_callback(hotel.close)
        yield hotel
        await hotel.client.delete(NAMESPACE, hotel.namespace)


@pytest.mark.criterion("SH-17", "SH-18")
async def test_each_room_is_the_work_of_one_whoever_comes_or_goes(hotel: Hotel) -> None:
    """The member that is killed leads."""
    await hotel.environment.install_crds(room_crd())
    for name in ROOMS:
        head = {"metadata": {"name": name, "namespace": hotel.namespace}}
        await hotel.client.create(
            {"apiVersion": "hotel.example.com/v1", "kind": "Room", **head, "spec": {"guests": 1}}
        )
    for name in MEMBERS:
        hotel.start(name)
    await hotel.shown(1)
    assert len(hotel.writers()["created"]) == len(ROOMS), "none is made twice"

    await hotel.divided()
    since = hotel.mark()
    await hotel.set_guests(2)
    await hotel.shown(2)
    owners = await hotel.assignment()
    assert hotel.writers(since) == {
        name: [owners.slots[slot_of(name, namespace=hotel.namespace)].owner] for name in ROOMS
    }

    since = hotel.mark()
    await hotel.kill(hotel.leader())
    await hotel.set_guests(3)
    await hotel.shown(3)
    assert {len(each) for each in hotel.writers(since).values()} == {1}
    assert hotel.names(since) == {*hotel.members}

    stopped = hotel.members.pop(min(hotel.members))
    assert await stopped.stop(grace=60) == 0
    await hotel.divided()
    since = hotel.mark()
    await hotel.set_guests(4)
    await hotel.shown(4)
    assert {len(each) for each in hotel.writers(since).values()} == {1}
    assert hotel.names(since) == {*hotel.members}


def room_crd() -> dict[str, object]:
    """The definition of the example's kind."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"guests": {"type": "integer"}}},
            "status": {"type": "object"},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "rooms", "singular": "room", "kind": "Room", "listKind": "RoomList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rooms.hotel.example.com"},
        "spec": {
            "group": "hotel.example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }
