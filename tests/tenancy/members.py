"""Managers that share the tenants of one server by slots, each a user of its own, on the loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from ctrlruntime.cache.cache import Cache
from ctrlruntime.envtest.proxy import LogEntry, Mark
from ctrlruntime.manager import Manager
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.sharding import SlotHandOver, slot_of
from internal.tenancy.tenant.slots import TenantSlots
from manager.controllers.tenancy import add_tenancy
from manager.options import LEADER_ELECTION_ID
from tests.manifests.installation import NAMESPACE as INSTALLED
from tests.support.manager_harness import LIMIT, PATIENT, is_silent, make_manager
from tests.tenancy.harness import TenancyHarness

FIRST, SECOND = frozenset(range(32)), frozenset(range(32, 64))
USERS = ("admin", "manager", "member")


@dataclass(slots=True)
class FixedSlots:
    """An ownership that a test decides on."""

    held: frozenset[int] = frozenset()
    handovers: list[SlotHandOver] = field(default_factory=list)
    cache: Cache | None = None

    def may_write(self, slot: int) -> bool:
        return slot in self.held

    def subscribe(self, handover: SlotHandOver) -> None:
        self.handovers.append(handover)

    async def take(self, slots: frozenset[int]) -> None:
        """Give slots to the process."""
        assert self.cache is not None
        await self.cache.take_slots(slots)
        self.held |= slots
        for each in self.handovers:
            each.begin(slots)


@dataclass(slots=True)
class Members:
    """The managers of a harness that was started without one."""

    harness: TenancyHarness

    @contextlib.asynccontextmanager
    async def member(self, user: str, slots: frozenset[int]) -> AsyncIterator[Manager]:
        """Run a manager of these slots."""
        folder: Path = self.harness.folder
        ownership = FixedSlots()
        options = replace(self.harness.options, slots=TenantSlots(ownership))
        with (folder / f"{user}.log").open("a") as stream:
            manager = make_manager(
                self.harness.environment.config(user),
                logger=make_logger(format="console", stream=stream),
                cache=self.harness.cache,
                name="manager",
                leader_election=True,
                leader_election_id=LEADER_ELECTION_ID,
                leader_election_namespace=INSTALLED,
                election=PATIENT,
            )
            add_tenancy(manager, options)
            async with manager.running(leading=False):
                ownership.cache = manager.cache
                await ownership.take(slots)
                yield manager

    @contextlib.asynccontextmanager
    async def both(self) -> AsyncIterator[tuple[Manager, Manager]]:
        """Run two managers, each of half of the slots."""
        async with self.member("manager", FIRST) as one, self.member("member", SECOND) as other:
            yield one, other

    def writes(self, user: str, since: Mark | None = None) -> list[LogEntry]:
        """Return what a manager wrote, Leases and events aside."""
        return [
            each
            for each in self.harness.environment.proxy.log.entries(since)
            if each.user == user
            and each.verb not in ("get", "list", "watch")
            and kind_of(each) not in ("leases", "events")
        ]

    async def silent(self) -> None:
        """Wait until no manager has sent anything for a while, Leases, watches and events aside."""
        mark = self.harness.mark()
        try:
            async with asyncio.timeout(LIMIT):
                while not await is_silent(partial(self.requests, mark)):
                    mark = self.harness.mark()
        except TimeoutError:
            raise AssertionError(f"never silent; last: {self.requests(mark)}") from None

    def requests(self, since: Mark | None = None) -> list[LogEntry]:
        """Return what managers sent, Leases, watches and events aside."""
        return [
            each
            for each in self.harness.environment.proxy.log.entries(since)
            if each.verb != "watch" and kind_of(each) not in ("leases", "events")
        ]


def changed_in_turn(requests: Iterable[LogEntry]) -> list[str]:
    """Return the tenants that were changed, in order. Fail unless each was after the status of the one before was written."""
    steps = [
        (each.verb, each.name)
        for each in requests
        if kind_of(each) == "tenants" and each.verb in ("apply", "patch")
    ]
    changed = [name for verb, name in steps if verb == "apply"]
    for one, following in pairwise(changed):
        reported = steps.index(("patch", one))
        assert steps.index(("apply", one)) < reported < steps.index(("apply", following))
    return changed


def kind_of(entry: LogEntry) -> str:
    """Return the plural of what a request was about, without its group."""
    return entry.resource.partition(".")[0]


def named(slots: frozenset[int], namespace: str, suffix: str, count: int) -> list[str]:
    """Return uids of rows whose tenants are in these slots."""
    found = (f"u{number}" for number in range(10_000))
    there = (each for each in found if slot_of(f"{each}{suffix}", namespace=namespace) in slots)
    return [next(there) for _ in range(count)]
