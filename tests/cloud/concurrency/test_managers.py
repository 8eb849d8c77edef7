"""Managers that come, go, lag behind and are deposed, on a server over HTTP, by random schedules."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from apis.cloud import InstanceTerraform, TaskState, Waiting, WaitingReason
from ctrlruntime.api import Resource
from ctrlruntime.clock import utc_now
from ctrlruntime.queue import Request
from ctrlruntime.resources import Definitions
from internal.cloud.concurrency import ConcurrencyLimiter
from internal.cloud.concurrency.granter import Granter
from internal.cloud.concurrency.grants import GrantsInStatus
from internal.cloud.concurrency.rebuild import LedgerKeeper
from internal.cloud.runs import RunState
from internal.cloud.subresource import Subresource
from internal.cloud.tasks.task import Concurrency, Retries, Supersede
from tests.cloud.taskdriver.fake_provider import Lost
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, Life, TaskDriverHarness, run_of

LIMIT = 2
NAMES = [f"acme-{number}" for number in range(5)]
WAITS = Waiting(reason=WaitingReason.TURN, since=utc_now())
DEFINITION = replace(
    PLAIN,
    timeout=3600.0,
    retries=Retries(limit=0, base=5.0, cap=20.0),
    concurrency=Concurrency(limit=LIMIT),
    history=2,
)
TERRAFORM: Subresource[Any] = Subresource(
    kind=InstanceTerraform, definition=DEFINITION, desired=lambda _instance, _upstream: None
)


class Deposed(Exception):
    """Another leads."""


@dataclass
class Seat:
    """One manager and its right to act outside."""

    life: Life
    keeper: LedgerKeeper
    granter: Granter[Any]
    """Where the managers share the objects."""
    leads: bool = True
    old: dict[str, Any] = field(default_factory=dict)
    """Objects as they once were in its cache."""


@dataclass
class Schedule:
    """A random schedule; `seed` decides all of it. `shared`: the managers share the objects, and the leader grants starts."""

    harness: TaskDriverHarness
    stack: AsyncExitStack
    seed: int
    shared: bool
    seats: list[Seat] = field(default_factory=list)
    owned: float = 0.9
    """How probable it is that a manager works on the slot of an object."""
    limits: Concurrency = DEFINITION.concurrency

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.definition = replace(
            DEFINITION,
            supersede=self.random.choice([Supersede.AWAIT, Supersede.CANCEL]),
            concurrency=self.limits,
        )
        self.subresource = replace(TERRAFORM, definition=self.definition)

    @property
    def leader(self) -> Seat:
        return self.seats[-1]

    async def take_over(self) -> None:
        """A new manager leads; the last one may go on for a while, and may not act outside unless it has its share."""
        for seat in self.seats:
            seat.leads = False

        def fence() -> None:
            if not (seat.leads or self.shared):
                raise Deposed

        ledger = ConcurrencyLimiter(self.harness.clock)
        limiter = GrantsInStatus() if self.shared else ledger
        life = await self.stack.enter_async_context(self.harness.life(fence=fence, limiter=limiter))
        keeper = LedgerKeeper(
            ledger=ledger,
            client=life.cache.live_client,
            subresources=[self.subresource],
            crds=Definitions(life.cache.live_client),
            clock=self.harness.clock,
            grants=self.shared,
        )
        granter = Granter(
            self.subresource,
            keeper,
            life.tools.client,
            life.tools.patcher,
            self.harness.clock,
            is_left_alone=lambda _resource: False,
            has_owner=lambda _resource: self.random.random() < self.owned,
            wake=lambda _owner: None,
            least=3.0,
        )
        seat = Seat(life, keeper, granter)
        life.cache.informer(InstanceTerraform).add_handler(
            partial(keeper.observe, self.subresource)
        )
        await keeper.ready()
        self.seats = [*self.seats[-1:], seat]

    async def step(self) -> None:
        """One thing happens."""
        name = self.random.choice(NAMES)
        action = self.random.choices(
            [
                self.work,
                self.lag,
                self.run_on,
                self.change,
                self.depose,
                self.fault,
                self.wait,
                self.grant,
            ],
            [10, 4, 6, 2, 1, 2, 3, 12 if self.shared else 0],
        )[0]
        await action(name)

    async def work(self, name: str) -> None:
        """A manager makes a pass."""
        seat = self.random.choice(self.seats)
        await self.pass_over(seat, name, await seat.life.seen(name))

    async def lag(self, name: str) -> None:
        """A manager makes a pass over what was in its cache some time ago."""
        seat = self.random.choice(self.seats)
        if name in seat.old:
            await self.pass_over(seat, name, seat.old[name])
        seat.old[name] = await seat.life.seen(name)

    async def pass_over(self, seat: Seat, name: str, resource: Resource[Any, Any]) -> None:
        try:
            await seat.life.step(name, resource=resource, definition=self.definition)
        except (Lost, Deposed):
            return

    async def grant(self, name: str) -> None:
        """The leader looks at an object, as its cache has it."""
        await self.leader.granter.reconcile(Request(name, namespace=NAMESPACE))

    async def run_on(self, _name: str) -> None:
        """Something happens to a run."""
        live = self.harness.outside.live()
        if not live:
            return
        run = self.random.choice(live)
        state = self.random.choice(
            [RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED]
        )
        self.harness.outside.move(run.run_id, state)

    async def change(self, name: str) -> None:
        await self.harness.change(name, domain=f"d{self.random.randrange(3)}.example.com")

    async def depose(self, _name: str) -> None:
        await self.take_over()

    async def fault(self, _name: str) -> None:
        self.harness.outside.fault = (1, self.random.choice(["fail", "lose"]))

    async def wait(self, _name: str) -> None:
        self.harness.clock.advance(self.random.choice([0.5, 3, 30]))

    def check(self) -> None:
        """What holds at every moment."""
        outside = self.harness.outside
        assert set(outside.begun.values()) <= {1}, "no identity is started twice"
        owners = [outside.owners[run.run_id] for run in outside.live()]
        assert len(owners) == len(set(owners)), "no object has two runs"
        assert len(owners) <= LIMIT, "the limit is never passed"

    async def converge(self) -> None:
        """Faults stop: everybody's turn comes."""
        self.harness.outside.fault, self.owned = None, 1.0
        await self.take_over()
        for _ in range(12):
            for name in NAMES:
                await self.leader.life.drive(name, definition=self.definition)
                if self.shared:
                    await self.leader.life.seen(name)
                    await self.grant(name)
                await self.leader.life.drive(name, definition=self.definition)
                self.check()
            for run in self.harness.outside.live():
                self.harness.outside.move(run.run_id, RunState.SUCCEEDED)
            self.harness.clock.advance(30)


@pytest.mark.criterion("SG-20")
@pytest.mark.criterion("SG-40")
@pytest.mark.criterion("SG-43")
@pytest.mark.criterion("SG-44")
@pytest.mark.criterion("SH-38")
@pytest.mark.parametrize("shared", [False, True], ids=["one works", "shared"])
@pytest.mark.parametrize("seed", range(6))
async def test_a_random_schedule(harness: TaskDriverHarness, seed: int, shared: bool) -> None:
    for name in NAMES:
        await harness.make(name)
    async with AsyncExitStack() as stack:
        schedule = Schedule(harness, stack, seed, shared)
        await schedule.take_over()
        for _ in range(80):
            await schedule.step()
            schedule.check()
        await schedule.converge()
    for item in await harness.admin.list(InstanceTerraform, NAMESPACE):
        run = run_of(item.status)
        assert run.state is TaskState.DONE
        assert item.status.succeeded is not None
        assert item.status.succeeded.inputs_version.startswith(f"{item.metadata.generation}-")


@pytest.mark.criterion("SH-38")
async def test_a_new_leader_counts_what_is_granted_before_it_grants_more(
    harness: TaskDriverHarness,
) -> None:
    """Also where its cache has an object as it was before it was granted."""
    for name in NAMES:
        await harness.make(name)
    async with AsyncExitStack() as stack:
        schedule = Schedule(harness, stack, 0, shared=True, owned=1.0)
        await schedule.take_over()
        for name in NAMES:
            await schedule.leader.life.drive(name, definition=schedule.definition)
            await schedule.leader.life.seen(name)
            await schedule.grant(name)
        await schedule.take_over()
        ledger = schedule.leader.keeper.ledger
        for name in reversed(NAMES):
            await schedule.leader.life.seen(name)
            await schedule.grant(name)
            assert ledger.running(DEFINITION.name) == LIMIT
        found = await harness.admin.list(InstanceTerraform, NAMESPACE)
        granted = [each for each in found if (each.status.waiting or WAITS).granted_at is not None]
        assert [each.metadata.name for each in granted] == NAMES[:LIMIT]
        uid = granted[0].metadata.uid
        schedule.leader.keeper.listed[uid] = 1 << 60
        await schedule.work(NAMES[0])
        assert harness.outside.live()
        schedule.harness.outside.move(harness.outside.live()[0].run_id, RunState.SUCCEEDED)
        await schedule.leader.life.drive(NAMES[0], definition=schedule.definition)
        await schedule.grant(NAMES[0])
        assert ledger.holds(uid), "what the cache has is older than what was listed"
        del schedule.leader.keeper.listed[uid]
        await schedule.leader.life.seen(NAMES[0])
        await schedule.grant(NAMES[0])
        assert not ledger.holds(uid)


@pytest.mark.criterion("SH-38")
async def test_a_run_that_the_leader_never_saw_counts_as_a_start(
    harness: TaskDriverHarness,
) -> None:
    """Granted, begun, ended, and the next one requested, between two looks of the leader."""
    name, rate = NAMES[0], Concurrency(starts_per_minute=1)
    await harness.make(name)
    async with AsyncExitStack() as stack:
        schedule = Schedule(harness, stack, 0, shared=True, owned=1.0, limits=rate)
        await schedule.take_over()
        life = schedule.leader.life

        async def look() -> Waiting:
            """A pass of the object's manager and one of the leader; what the object waits for then."""
            await life.drive(name, definition=schedule.definition)
            await life.seen(name)
            await schedule.grant(name)
            found = await harness.admin.get(InstanceTerraform, name, namespace=NAMESPACE)
            assert found.status.waiting is not None
            return found.status.waiting

        assert (await look()).granted_at is not None
        await life.drive(name, definition=schedule.definition)
        harness.outside.move(harness.outside.live()[0].run_id, RunState.SUCCEEDED)
        await life.drive(name, definition=schedule.definition)
        harness.clock.advance(1)
        await harness.change(name, domain="other.example.com")
        second = await look()
        assert (second.reason, second.granted_at) == (WaitingReason.RATE, None)
        harness.clock.advance(61)
        assert (await look()).granted_at is not None
