"""Members of one group in the process of a test, on one server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.clock import boottime
from ctrlruntime.events.recorder import EventRecorder
from ctrlruntime.manager.election import ElectionOptions
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import ManagerOptions
from ctrlruntime.sharding.leases import ASSIGNED
from ctrlruntime.sharding.options import ShardingOptions
from ctrlruntime.sharding.shards import ShardDeps, Shards
from ctrlruntime.sharding.slots import ALL_SLOTS
from tests.support.waiting import eventually

QUICK = ElectionOptions(lease_duration=90.0, renew_deadline=80.0, retry_period=0.2)
NAMESPACE = "default"


@dataclass(slots=True)
class Member:
    """One member, and what happened to its slots."""

    shards: Shards
    leads: bool = False
    log: list[tuple[str, frozenset[int]]] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    passes: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no pass runs: a release waits for it."""
    ended: bool = False

    async def take(self, slots: frozenset[int]) -> None:
        assert not slots & self.shards.held
        self.log.append(("take", slots))

    def begin(self, slots: frozenset[int]) -> None:
        assert slots <= self.shards.held
        self.log.append(("begin", slots))

    async def release(self, slots: frozenset[int]) -> None:
        assert not slots & self.shards.held
        await self.passes.wait()
        self.log.append(("release", slots))

    @property
    def writable(self) -> frozenset[int]:
        """The slots of which it may write."""
        return frozenset(slot for slot in ALL_SLOTS if self.shards.may_write(slot))


@dataclass(slots=True)
class ShardGroup:
    """Members that come and go. After each step no slot may be written by two."""

    config: Config
    election: ElectionOptions = QUICK
    members: dict[str, Member] = field(default_factory=dict)

    def join(
        self,
        name: str = "",
        *,
        leads: bool = False,
        slots: frozenset[int] | None = None,
        clock: Callable[[], float] = boottime,
        config: Config | None = None,
        settle: float = 0.5,
        current: asyncio.Event | None = None,
    ) -> Member:
        """Start a member. `current`: set once its caches have what the server has."""
        member: Member

        async def catch_up() -> None:
            if current is not None:
                await current.wait()

        sharding = ShardingOptions(
            group="shop", member=name, namespace=NAMESPACE, slots=slots, settle=settle
        )
        logger = structlog.get_logger()
        deps = ShardDeps(
            config=config or self.config,
            manager=ManagerOptions(election=self.election, leader_election_namespace=NAMESPACE),
            metrics=Metrics(),
            recorder=EventRecorder(Client.connect(self.config), "tests", logger=logger),
            logger=logger,
            failed=lambda error: member.errors.append(error),
            leads=lambda: member.leads,
            catch_up=catch_up,
            clock=clock,
        )
        member = Member(Shards(sharding, deps), leads)
        member.passes.set()
        member.shards.subscribe(member)
        member.shards.start()
        self.members[sharding.name] = member
        return member

    def check(self) -> None:
        """Fail where two may write for one slot."""
        writable: dict[int, str] = {}
        for name, member in self.members.items():
            for slot in member.writable:
                assert writable.setdefault(slot, name) == name, f"slot {slot}"

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait, and check all the time."""

        def holds() -> object:
            self.check()
            return condition()

        await eventually(holds)

    def shares(self) -> dict[str, int]:
        """How many slots each holds."""
        return {name: len(each.shards.held) for name, each in self.members.items()}

    async def leave(self, name: str, *, release: bool = True) -> None:
        """End a member; without `release` it is as if it were killed."""
        await self.members.pop(name).shards.end(release=release)

    async def assignment(self, client: Client) -> dict[str, Any]:
        """Return the Lease with the assignment."""
        return await client.get(LEASE, "shop-slots", namespace=NAMESPACE)

    async def put(self, client: Client, text: str) -> None:
        """Write the assignment as a person would."""
        await client.patch(
            LEASE,
            "shop-slots",
            {"metadata": {"annotations": {ASSIGNED: text}}},
            namespace=NAMESPACE,
        )


@contextlib.asynccontextmanager
async def shard_group(
    config: Config, election: ElectionOptions = QUICK
) -> AsyncIterator[ShardGroup]:
    """A group whose members all end with the block."""
    group = ShardGroup(config, election)
    try:
        yield group
    finally:
        for name in [*group.members]:
            await group.leave(name)
