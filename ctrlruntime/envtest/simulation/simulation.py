"""One run of a test: an API server, managers, users, and what happens to them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.crds import CRDSource
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation.cluster import Cluster
from ctrlruntime.envtest.simulation.faults import Faults
from ctrlruntime.envtest.simulation.hands import Hands
from ctrlruntime.envtest.simulation.logs import logger
from ctrlruntime.envtest.simulation.oracles import RULES, Oracles, RuleBroken
from ctrlruntime.envtest.simulation.process import Process
from ctrlruntime.envtest.simulation.replica import Replica
from ctrlruntime.envtest.simulation.server import Call, SimulatedServer, Witness
from ctrlruntime.envtest.simulation.sources import World
from ctrlruntime.envtest.simulation.state import State, counts, difference
from ctrlruntime.envtest.simulation.tape import Tape
from ctrlruntime.manager import GCOptions, Manager, ManagerOptions
from ctrlruntime.manager.election import ElectionOptions

Setup = Callable[[Manager], object]
_QUIET: Final = 30.0
"""Seconds without a change after which a run without faults has ended: longer than a lease."""
_PATIENCE: Final = 3
"""How many times as long an election of a patient seed takes."""
_ARRIVED: Final = 3.0
"""Seconds after which nothing that a process sent before its end is on its way: no request is late by more than 2.5."""
_BRIEF: Final = 0.1
"""The share of an idle time that passes in seeds that are brief."""
_LEASE_NAMESPACE: Final = "default"


class Simulation:
    """What a simulated test is given. All times are virtual seconds."""

    def __init__(
        self,
        world: World,
        tape: Tape,
        server: SimulatedServer,
        faults: Faults,
        expected: list[State] | None,
    ) -> None:
        """Compare with `expected`: where the same users' actions end without faults; None in that run itself."""
        self.states: list[State] = []
        """The end of each `settles`."""
        self.replicas = faults.replicas
        self.compared: Callable[[str, Any], object] = lambda _key, obj: obj
        """What `settles` compares of an object: it is given kind, namespace and name, and the object, of which it may
        leave out what two runs that end alike differ in; None leaves the object out."""
        self.broken: RuleBroken | None = None
        self._clusters: list[Cluster] = []
        self._world = world
        self._tape = tape
        self._brief = tape.mode("brief", 0.9)
        self._patient = tape.mode("patient", 0.8)
        self._expected = expected
        self._changed_at = 0.0
        self._changes = 0
        self._oracles = Oracles(self._time, faults, self._break)
        self._faults = faults
        self.first = self._added(server)
        """The cluster that there is from the beginning."""

    # -- what a test uses ------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """A client of the test itself: an administrator whom no fault meets."""
        return self.first.client

    @property
    def url(self) -> str:
        """Where the API server is: for clients of other processes."""
        return self.first.url

    async def cluster(self, name: str) -> Cluster:
        """Start another API server, to which all rules and faults apply as well. `name` goes before what is there."""
        first = self.first.server
        server = SimulatedServer(
            first.options, self._time, self._world.loop.trace, self._faults, name
        )
        await server.start()
        return self._added(server)

    @property
    def random(self) -> Random:
        """Draws of the seed for what the test does: the same ones in the run without faults."""
        self._tape.user_draws += 1
        return self._tape.stream("user")

    def draws(self, name: str) -> Random:
        """Draws of the seed for a test that has rules of its own: no run without faults is made for them."""
        return self._tape.stream(f"user/{name}")

    def now(self) -> datetime:
        """Return the time of day."""
        return datetime.fromtimestamp(self._world.wall(), UTC)

    async def install(self, *kinds: CRDSource) -> None:
        """Install definitions, as `Environment.install_crds` does."""
        await self.first.install(*kinds)

    def manager(
        self,
        setup: Setup,
        *,
        replicas: int = 1,
        leader_election: bool = False,
        options: ManagerOptions | None = None,
        name: str = "m",
        cluster: Cluster | None = None,
    ) -> list[Replica]:
        """Run a manager with the controllers that `setup` adds, and start it again whenever it ends.

        `cluster`: the one of the manager; the first one by default. With `replicas` above 1 and `leader_election` the others stand by. `setup` may be async. Returns the processes.
        """
        given = options or ManagerOptions(name="manager")
        if leader_election:
            given = replace(
                given,
                election=self.election(given.election),
                leader_election=True,
                leader_election_id=given.leader_election_id or name,
                leader_election_namespace=given.leader_election_namespace or _LEASE_NAMESPACE,
            )
        # A collection would run the clean-up of tasks that were killed: `zygote` has it off.
        given = replace(given, metrics_bind_address="0", health_bind_address="0", gc=GCOptions())

        where = cluster or self.first

        async def main(replica: Replica) -> None:
            config = Config(host=where.url, user_agent=given.name)
            own = replace(given, leader_election_identity=replica.identity)
            if given.sharding is not None:
                member = given.sharding.member or replica.name
                own = replace(own, sharding=replace(given.sharding, member=member))
            await _run_manager(config, own, setup)

        lease = f"{given.leader_election_namespace}/{given.leader_election_id}"
        lease = where.server.qualified(lease) if leader_election else ""
        return [
            self.program(f"{name}{number}", main, lease=lease) for number in range(1, replicas + 1)
        ]

    def program(
        self, name: str, main: Callable[[Replica], Awaitable[None]], *, lease: str = ""
    ) -> Replica:
        """Run a program that faults meet, and start it again whenever it ends.

        `lease`: namespace and name of the Lease it competes for, with the cluster and a colon before it in others than
        the first one.
        """
        loop = self._world.loop
        replica = Replica(name, main, loop, loop.trace, self._tape.stream("restarts"))
        replica.ended, replica.lease = self._oracles.ended, lease
        self.replicas.append(replica)
        replica.start()
        return replica

    def remove(self, replica: Replica) -> None:
        """Kill a program for good."""
        replica.end()
        self.replicas.remove(replica)

    def election(self, given: ElectionOptions) -> ElectionOptions:
        """Return the times of an election: in most seeds they are longer, and it is less of what a seed costs.

        `manager` does so itself; it is for a `program` that competes for a Lease.
        """
        if not self._patient or given != ElectionOptions():
            return given
        return replace(
            given,
            lease_duration=_PATIENCE * given.lease_duration,
            renew_deadline=_PATIENCE * given.renew_deadline,
            retry_period=_PATIENCE * given.retry_period,
        )

    def start(self, name: str, main: Callable[[], Awaitable[None]]) -> None:
        """Run something else in a process of its own that no fault meets: what takes a kubelet's part, say."""
        context = Process(name).context()
        self._world.loop.create_task(_awaited(main), name=name, context=context)

    def add_fault(self, kind: str, happen: Callable[[Random], str]) -> None:
        """Add a kind of fault of the test's own: `happen` lets it, and returns what it was."""
        self._faults.add(kind, happen)

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        """Let something happen in virtual time, outside of all processes."""
        self._world.loop.call_later(seconds, happen, context=Context())

    def lasts(self, end: Callable[[], None]) -> None:
        """Note what ends a fault of the test's own that lasts: it is called at the end of `faults` at the latest."""
        self._faults.lasts(end)

    @property
    def stale(self) -> bool:
        """Whether a fault may still withhold from a manager what happened: a rule of the test may allow for that."""
        return self._faults.stale

    def has_fired(self, kind: str) -> bool:
        """Return whether a kind of fault has met a process."""
        return any(each.partition(":")[0] == kind for each in self._faults.fired)

    def note(self, what: str) -> None:
        """Note for readers of a red run what a user did that is no request."""
        self._world.loop.trace.note(self._time(), "user", f"* {what}")

    def inputs_change(self) -> None:
        """Note that a manager has read something else than before which the API server does not hold."""
        self._oracles.inputs_change()

    def objects(self, resource: str) -> list[Manifest]:
        """Return all objects of a resource, as `deployments.apps`, by namespace and name: no request is made."""
        return self.first.objects(resource)

    async def sleep(self, seconds: float, *, exactly: bool = False) -> None:
        """Let virtual time pass. Among faults users may be in a hurry: it is less then, unless `exactly` so long."""
        await asyncio.sleep(seconds if exactly else self._faults.haste(seconds))

    @asynccontextmanager
    async def faults(self, *, most: int = 25, by_hand: bool = False) -> AsyncIterator[None]:
        """For the length of the block let happen what the seed draws: at most `most` faults.

        At its end all of them are over: streams go on, pauses and partitions end. With `by_hand` people also
        delete objects that controllers made, and hold them by finalizers.
        """
        storage = self.first.server.state.storage
        hands = Hands(self.client, storage) if by_hand else None
        async with self._faults.happening(most, hands):
            yield

    async def settles(self, within: float = 900.0, lacks: Callable[[], str] | None = None) -> None:
        """Wait until everything is as it is in the end without faults, and a fresh manager agrees.

        With `lacks` that decides instead: it returns what is not as it should be, or nothing.
        Raises RuleBroken when it is not so after `within` seconds.
        """
        if lacks is not None:
            await self._comes_to(lacks, within, self._revisions)
        elif self._expected is None:
            await self._quiet(within, self._longest_lease)
            self.states.append(self._state())
        else:
            await self._reaches(self._expected[len(self.states)], within)
            self.states.append(self._state())
        await self._fresh_managers_agree()

    async def stays_idle(self, seconds: float = 3600.0) -> None:
        """Let time pass, in which nothing may be written but leases, and informers watch on.

        In nine of ten seeds it is a tenth of that: the rest of the time would be most of what they cost.
        """
        if self._brief:
            seconds *= _BRIEF
        with self._oracles.idle(seconds):
            await asyncio.sleep(seconds)

    def allow(self, *rules: str) -> None:
        """Leave rules out that this controller breaks for a reason: names of `oracles.RULES`.

        Raises ValueError for a name that is none.
        """
        if unknown := sorted({*rules} - {*RULES}):
            raise ValueError(f"no rules {', '.join(unknown)}; there are {', '.join(RULES)}")
        self._oracles.allowed |= set(rules)

    def shows(self, witness: Witness) -> None:
        """Show every change and every request to a witness of the test, which may call `breaks`."""
        self.first.shows(witness)

    def breaks(self, rule: str, message: str) -> None:
        """End the run: a rule of the test is broken."""
        self._break(rule, message)

    # -- how it settles ----------------------------------------------------------------------------------

    def _time(self) -> float:
        return self._world.loop.time()

    def _state(self) -> State:
        state: State = {}
        for cluster in self._clusters:
            state |= cluster.state(self.compared)
        return state

    def _added(self, server: SimulatedServer) -> Cluster:
        made = Cluster(server, self._world.loop.network)
        server.witnesses += [self, self._oracles]
        self._clusters.append(made)
        return made

    @property
    def _longest_lease(self) -> float:
        """Seconds without a change after which whoever waits for a Lease has had it."""
        return _QUIET * _PATIENCE if self._patient else _QUIET

    async def _quiet(self, within: float, quiet: float) -> None:
        end = self._time() + within
        while self._time() < self._changed_at + quiet:
            if self._time() > end:
                raise RuleBroken(
                    "settles", f"something still changes {within:g} s after all faults ended"
                )
            await asyncio.sleep(self._changed_at + quiet - self._time())

    async def _reaches(self, expected: State, within: float) -> None:
        def differs() -> str:
            return difference(expected, self._state(), "without faults")

        await self._comes_to(differs, within, lambda: self._changes)

    def _revisions(self) -> int:
        return sum(each.server.state.storage.revision for each in self._clusters)

    async def _comes_to(
        self, lacks: Callable[[], str], within: float, changes: Callable[[], int]
    ) -> None:
        """Wait until nothing lacks; it is looked for again once there are other `changes`."""
        end = self._time() + within
        looked_at = -1
        found = ""
        while True:
            if (now := changes()) != looked_at:
                looked_at = now
                found = lacks()
            if not found and self._time() >= self._changed_at + 2.0:
                return
            if self._time() >= end:
                raise RuleBroken(
                    "settles",
                    f"{within:g} s after all faults ended it is not as it should be:\n{found}",
                )
            await asyncio.sleep(1.0)

    async def _fresh_managers_agree(self) -> None:
        """Raise RuleBroken when managers that begin with empty caches change anything.

        In brief seeds their Leases are released, as those before them do that end in order: they lead at once.
        """
        before = self._state()
        for replica in self.replicas:
            replica.restart_now()
        if self._brief:
            await asyncio.gather(*(each.release_leases(_ARRIVED) for each in self._clusters))
        self._changed_at = self._time()
        await self._quiet(300.0, _QUIET if self._brief else self._longest_lease)
        if found := difference(before, self._state(), "before"):
            raise RuleBroken("fresh manager", f"a manager that starts anew changes:\n{found}")

    # -- what it is shown ----------------------------------------------------------------------------------

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Note when something changed last."""
        if counts(bucket.resource):
            self._changed_at = self._time()
            self._changes += 1

    def answered(self, call: Call) -> None:
        """Leave it: requests alone are nothing that it waits for."""

    def _break(self, rule: str, message: str) -> None:
        if self.broken is None:
            self.broken = RuleBroken(rule, message)
            self._world.loop.stop()


async def _run_manager(config: Config, options: ManagerOptions, setup: Setup) -> None:
    manager = Manager(config, options, logger=logger())
    adding = setup(manager)
    if inspect.isawaitable(adding):
        await adding
    await manager.start()


async def _awaited(main: Callable[[], Awaitable[None]]) -> None:
    await main()
