"""The slots of a process: its Lease as a member, the assignment, and hand-overs with all that takes part in them.

What is decided is in :mod:`~ctrlruntime.sharding.handover` and :mod:`~ctrlruntime.sharding.planner`; here it is read, written and
carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists, Conflict, NotFound
from ctrlruntime.clock import boottime
from ctrlruntime.events.recorder import EventRecorder
from ctrlruntime.manager.leadership import LeaderElectionLost, Leadership
from ctrlruntime.manager.lease import LeaseLock
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import ManagerOptions, lease_namespace
from ctrlruntime.sharding.assignment import Assignment, BadAssignment, decode
from ctrlruntime.sharding.handover import HandOver
from ctrlruntime.sharding.leases import (
    ANNOUNCED,
    ASSIGNED,
    MEMBER,
    GroupLeases,
    annotation,
    member_of,
    version_of,
)
from ctrlruntime.sharding.member_lock import MemberLock
from ctrlruntime.sharding.members import Members, announcement
from ctrlruntime.sharding.metrics import SlotMetrics
from ctrlruntime.sharding.options import GROUP_LABEL, ShardingOptions
from ctrlruntime.sharding.ownership import SlotHandOver
from ctrlruntime.sharding.planner import Planner, Undecided, claim
from ctrlruntime.sharding.report import SlotReport, SlotsOwned

T = TypeVar("T")
KEEP_LEASES: Final = 600.0
"""Seconds for which the Lease of a member that is gone and owns nothing is kept."""
NONE: Final = frozenset[int]()


class MembershipLost(LeaderElectionLost):
    """The member's Lease could not be renewed. The process must exit: others may be at work on its slots."""

    def __init__(self, reason: str = "") -> None:
        RuntimeError.__init__(
            self, "the Lease of this member was lost" + (f": {reason}" if reason else "")
        )


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardDeps:
    """What a process shares with its slots."""

    config: Config
    manager: ManagerOptions
    metrics: Metrics
    recorder: EventRecorder
    logger: FilteringBoundLogger
    failed: Callable[[Exception], None]
    """Receives what ends the process: MembershipLost, SlotsTaken, EpochWentBack, ServerRestored and others."""
    together: Sequence[tuple[str, str, str]] = ()
    """Leases of managers that work alone, by namespace, name and identity: held by all members together, so that none works beside one."""
    leads: Callable[[], bool] = lambda: False
    """Whether this process is the elected leader now, who assigns slots."""
    catch_up: Callable[[], Coroutine[Any, Any, None]] = _nothing
    """Has the caches hold what the server has now; returns within seconds."""
    clock: Callable[[], float] = boottime
    """Seconds that pass while the machine sleeps too; asked in two threads."""


class Shards:
    """A SlotOwnership. Subscribe, then :meth:`start`; :meth:`end` once nothing needs the slots any more."""

    def __init__(self, options: ShardingOptions, deps: ShardDeps) -> None:
        self.options = options
        self._deps = deps
        self._clock = deps.clock
        self._logger = deps.logger.bind(member=options.name)
        self._election = deps.manager.election
        self._namespace = options.namespace or lease_namespace(deps.manager)
        self._subscribers: list[SlotHandOver] = []
        self._members = Members(self._election.lease_duration)
        self._handover = HandOver(options.name)
        self._planner = Planner(options.settle, options.rule)
        self._report = SlotReport(options.acknowledge_within)
        self._metrics = SlotMetrics(deps.metrics.registry)
        self._announced = announcement(self._handover.announced, options.slots, options.rule)
        self._held = self._writable = NONE
        self._object: Manifest | None = None
        """The Lease with the assignment, as it was read last."""
        self._assignment: Assignment | None = None
        self._wake = asyncio.Event()
        self._owned = SlotsOwned()
        self._started = self._listed = False
        self._connected: asyncio.Future[GroupLeases]
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order they began
        self._catching_up: Counter[int] = Counter()
        """Slots that begin once the caches are current, and how often that is waited for."""
        self._leadership = self._make_leadership()

    # -- what the rest of the runtime sees -----------------------------------------------------------

    @property
    def held(self) -> frozenset[int]:
        """Slots of which passes may begin now."""
        return self._held if self._in_term() else NONE

    def may_write(self, slot: int) -> bool:
        """Whether a write for a slot may leave now. Callable in any thread."""
        return slot in self._writable and self._in_term()

    def subscribe(self, handover: SlotHandOver) -> None:
        """Take part in every hand-over. Raises RuntimeError once the process is a member."""
        if self._started:
            raise RuntimeError("subscribe to hand-overs before the manager is started")
        self._subscribers.append(handover)

    @property
    def owned(self) -> SlotsOwned:
        """Where every slot is, as seen a moment ago."""
        return self._owned

    def check(self) -> None:
        """Raise, as a health check, when the member's Lease is overdue, or its loop stood still."""
        self._leadership.check()

    def check_listed(self) -> None:
        """Raise, as a readiness check, until the Leases of the group were read: without the right to, this is no member."""
        if not self._listed:
            raise RuntimeError(
                "the Leases of members were not read yet; without the right to list them this never works"
            )

    def start(self) -> None:
        """Become a member. Returns at once; slots come later."""
        self._started = True
        self._connected = asyncio.get_running_loop().create_future()
        self._background(self._follow(), "Leases of members")
        self._leadership.start()

    async def end(self, *, release: bool) -> None:
        """Be a member no more. ``release``: nothing of any slot runs, so others may take them at once."""
        self._held = NONE
        await self._leadership.end(release=release)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _in_term(self) -> bool:
        return self._clock() <= self._leadership.term.may_write_until

    # -- the member's Lease --------------------------------------------------------------------------

    def _make_leadership(self) -> Leadership:
        options = replace(
            self._deps.manager,
            leader_election_id=self.options.lease_of(self.options.name),
            leader_election_shared_id="",
            leader_election_namespace=self._namespace,
            leader_election_events=False,
        )
        deps = self._deps
        return Leadership(
            deps.config,
            options,
            deps.metrics,
            deps.recorder,
            self._logger,
            self._work,
            self._fail,
            clock=self._clock,
            make_lock=self._lock,
            together=deps.together,
        )

    def _lock(self, client: Client, name: str) -> LeaseLock:
        return MemberLock(
            client,
            name,
            namespace=self._namespace,
            labels={**self._deps.manager.leader_election_labels, GROUP_LABEL: self.options.group},
            annotations=lambda: {MEMBER: self.options.name, ANNOUNCED: self._announced},
            election=self._election,
            clock=self._clock,
        )

    def _fail(self, error: Exception) -> None:
        if isinstance(error, LeaderElectionLost):
            error = MembershipLost(str(error.__cause__ or ""))
        self._deps.failed(error)

    # -- at work, from when the Lease is held --------------------------------------------------------

    async def _work(self) -> None:
        """Work on what is assigned, for ever. The list comes after the Lease was taken: see HandOver."""
        leases = await self._connected
        while not await self._attempt(self._list(leases)):
            await self._rest()
        while True:
            await self._step(leases)
            await self._rest()

    async def _list(self, leases: GroupLeases) -> str:
        """Note all Leases of the group, and return the version to watch from."""
        found, version = await leases.list()
        self._relisted(found)
        return version

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._election.retry_period):
                await self._wake.wait()
        self._wake.clear()

    async def _follow(self) -> None:
        """Note every Lease of the group as it changes, for ever; also before this member's own is held."""
        deps = self._deps
        connect = Client.connect(deps.config, observer=deps.metrics.requests, logger=deps.logger)
        async with connect as client:
            leases = GroupLeases(
                client, self.options, self._namespace, self._election.lease_duration
            )
            self._connected.set_result(leases)
            while True:
                try:
                    version = await self._list(leases)
                    async with contextlib.aclosing(leases.changes(version)) as changes:
                        async for kind, lease in changes:
                            self._changed(kind, lease)
                except Exception as error:  # noqa: BLE001 - whatever it was, it is listed again
                    self._logger.debug("The watch of members ended", error=repr(error))
                    await asyncio.sleep(self._election.retry_period / 2)

    def _relisted(self, found: list[Manifest]) -> None:
        self._listed = True
        for lease in found:
            self._note(lease)
        present = {each["metadata"]["name"] for each in found}
        if self.options.assignment not in present:
            self._object = self._assignment = None
        self._wake.set()

    def _changed(self, kind: str, lease: Manifest) -> None:
        if kind != "DELETED":
            self._note(lease)
        elif lease["metadata"]["name"] == self.options.assignment:
            self._object = self._assignment = None
        self._wake.set()

    def _note(self, lease: Manifest) -> None:
        if lease["metadata"]["name"] == self.options.assignment:
            self._note_assignment(lease)
        elif (member := member_of(lease)) is not None:
            self._members.see(member, self._clock())

    def _note_assignment(self, lease: Manifest) -> None:
        if self._object is not None and version_of(lease) <= version_of(self._object):
            return
        self._object = lease
        try:
            self._assignment = decode(annotation(lease, ASSIGNED))
        except BadAssignment as error:
            self._assignment = None
            self._logger.error(
                "The assignment of slots is broken", lease=self.options.assignment, error=str(error)
            )

    async def _step(self, leases: GroupLeases) -> None:
        """Do what there is to do now. Raises what ends the process."""
        await self._assign(leases)
        await self._observe(leases)
        while True:
            work = self._handover.work(self._members, self._clock())
            self._catching_up += Counter(work.begin)
            self._show()
            self._spawn(work.begin, self._begin)
            self._spawn(work.take, self._take)
            self._spawn(work.release, self._release)
            if not work.confirm or not await self._confirm(leases, work.confirm):
                break
        self._owned = self._report.update(self._handover.assignment, self._members, self._clock())
        self._metrics.show(self._owned)

    async def _observe(self, leases: GroupLeases) -> None:
        """Follow the assignment. An older one than before counts once it was read from the server again: an event may be late."""
        found = self._assignment
        if found is not None and found.epoch < self._handover.epoch:
            lease = await self._attempt(leases.read(self.options.assignment))
            if lease is None:
                return
            self._note_assignment(lease)
            found = self._assignment
        if found is not None:
            self._handover.observe(found)
            # The Lease of one that it names may have been deleted, or never have been: without this it is waited for, for ever.
            for name in self._handover.assignment.names - {self.options.name}:
                self._members.miss(name, self._clock())

    def _show(self) -> None:
        """Open the fence for slots that begin, close it for those that are let go, and announce both."""
        self._held = self._handover.held - self._catching_up.keys()
        self._writable = self._handover.writable
        text = announcement(self._handover.announced, self.options.slots, self.options.rule)
        if text != self._announced:
            self._announced = text
            self._leadership.hurry()

    # -- hand-overs ----------------------------------------------------------------------------------

    def _spawn(
        self, slots: frozenset[int], do: Callable[[frozenset[int]], Coroutine[Any, Any, None]]
    ) -> None:
        if slots:
            self._background(do(slots), f"{do.__name__} {sorted(slots)}")

    def _background(self, call: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(call, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _begin(self, slots: frozenset[int]) -> None:
        """Have passes begin once the caches are current: a release may be seen sooner than what was written before it."""
        await self._attempt(self._deps.catch_up())
        self._catching_up -= Counter(slots)
        self._show()
        begun = self._handover.held & slots - self._catching_up.keys()
        if begun:
            self._logger.info("Slots are held", slots=sorted(begun), epoch=self._handover.epoch)
            for each in self._subscribers:
                each.begin(begun)

    async def _take(self, slots: frozenset[int]) -> None:
        """List slots, again and again, as long as one of them is to be this member's."""
        while True:
            if await self._all(lambda each: each.take(slots), "take"):
                break
            if not slots & self._handover.assignment.owned(self.options.name):
                break  # they are let go next
            await asyncio.sleep(self._election.retry_period)
        self._handover.taken(slots)
        self._wake.set()

    async def _release(self, slots: frozenset[int]) -> None:
        """Let slots go; until that has worked they are this member's."""
        while True:
            if await self._all(lambda each: each.release(slots), "release"):
                break
            await asyncio.sleep(self._election.retry_period)
        self._handover.released(slots)
        self._show()
        self._logger.info("Slots are let go", slots=sorted(slots), epoch=self._handover.epoch)
        self._wake.set()

    async def _all(
        self, call: Callable[[SlotHandOver], Coroutine[Any, Any, None]], what: str
    ) -> bool:
        """Call one after the other, up to one that fails: the manager is the first, which has passes end."""
        for each in self._subscribers:
            try:
                await call(each)
            except Exception as error:  # noqa: BLE001 - it is tried again
                self._logger.warning("A hand-over is tried again", step=what, error=repr(error))
                return False
        return True

    async def _confirm(self, leases: GroupLeases, names: frozenset[str]) -> bool:
        """Read Leases that look over from the server; whether any of them is."""
        epoch = self._handover.epoch
        for name in sorted(names):
            try:
                lease = await leases.read(self.options.lease_of(name))
            except Exception as error:  # noqa: BLE001 - it is tried again at the next step
                self._logger.warning(
                    "The Lease of a former owner was not read", former=name, error=repr(error)
                )
                return False
            now = self._clock()
            if lease is not None and (member := member_of(lease)) is not None:
                self._members.see(member, now)
            self._handover.confirm(name, epoch, self._members, now)
        return any(self._members.is_over(name, self._clock()) for name in names)

    # -- the assignment ------------------------------------------------------------------------------

    async def _assign(self, leases: GroupLeases) -> None:
        """Write the assignment: the leader for all, a member with fixed slots for itself. Raises SlotsTaken."""
        now, name, seen = self._clock(), self.options.name, self._handover.epoch
        if self._members.get(name) is None:
            return  # its own Lease has not come by the watch yet
        if self.options.slots is not None:
            try:
                after = claim(
                    self._assignment, name, self.options.slots, self._members, now, seen=seen
                )
            except Undecided as error:
                self._logger.info(
                    "Waiting for whether the owner of these slots is at work", owner=str(error)
                )
                return
        elif self._deps.leads():
            after = self._planner.plan(
                self._assignment, self._members, now, seen=self._handover.assignment
            )
            await self._clean(leases)
        else:
            return
        if after is not None:
            await self._attempt(self._write(leases, after))

    async def _write(self, leases: GroupLeases, assignment: Assignment) -> None:
        try:
            self._note_assignment(await leases.write(self._object, assignment))
        except (AlreadyExists, Conflict, NotFound):
            lease = await leases.read(self.options.assignment)
            if lease is None:
                self._object = self._assignment = None
            else:
                self._note_assignment(lease)
            self._wake.set()

    async def _clean(self, leases: GroupLeases) -> None:
        """Delete the Leases of members that have been gone for long."""
        now = self._clock()
        named = self._handover.assignment.names
        for name, lease in self._members.leases.items():
            if name not in named and self._members.over_since(name, now) > KEEP_LEASES:
                await self._attempt(leases.delete(self.options.lease_of(name), lease.version))
                self._members.forget(name)

    async def _attempt(self, call: Coroutine[Any, Any, T]) -> T | None:
        """Return the result; None, and a warning, for an error: the next step tries again."""
        try:
            return await call
        except NotFound:
            return None
        except Exception as error:  # noqa: BLE001 - the next step tries again
            self._logger.warning(
                "A Lease of the members was neither read nor written", error=repr(error)
            )
            return None
