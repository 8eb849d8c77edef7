"""Polls all nodes in the background, and answers from memory."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry

from ctrlruntime.cache.entry import Entry
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.manager import Group
from ctrlruntime.queue import Request
from ctrlruntime.resources.ordinal import ordinal_of
from internal.cosmos.cache.memory import Record
from internal.cosmos.cache.metrics import CacheMetrics
from internal.cosmos.cache.observation import DiskObservation, Observation, is_old_block
from internal.cosmos.cache.pace import Pace
from internal.cosmos.cache.pods import (
    TERMINATING,
    WITHOUT_ADDRESS,
    Target,
    by_ordinal,
    is_main,
    is_settled,
    is_terminating,
    target_of,
)
from internal.cosmos.cache.polling import Questions
from internal.cosmos.cache.pool import Pool
from internal.cosmos.comet.client import NodeClient
from internal.cosmos.comet.failures import SILENT
from internal.cosmos.comet.status import NodeStatus, require_network
from internal.cosmos.comet.usage import DiskUsage
from internal.cosmos.workload.pod_trouble import OF_POD, pod_trouble

SECONDS_OF_HEIGHTS: Final = 60.0
"""Heights alone are reported once in that many seconds at most."""

T = TypeVar("T")

PodsOf = Callable[[str, str], Iterable[Entry]]
"""All Pods of the set of this namespace and name, those beside its nodes too, from the informer."""

_JUMP = timedelta(minutes=1)
"""By how much a clock differs from what has passed that was set."""
Repeat = Callable[[Target], Coroutine[Any, Any, None]]
"""Polls one node until cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """How nodes are asked. Times in seconds."""

    interval: float = 5.0
    """Between two questions to the same node."""
    deadline: float = 5.0
    """That a node has to answer."""
    at_once: int = 100
    """Questions under way, of all sets."""
    disk_interval: float = 60.0
    """Between two looks at the usage of the same disk."""


class Poller:
    """Polls the nodes of one set, each at its own pace. Make it on the loop; it runs until it is stopped."""

    def __init__(self, name: str, repeats: Callable[[Target], Iterable[Repeat]]) -> None:
        """`repeats`: what a node is asked, all of it at the same time."""
        self._repeats = repeats
        self._targets: frozenset[Target] = frozenset()
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=name)

    def follow(self, targets: Iterable[Target]) -> None:
        """From now on these are asked and no others. Those that are asked already are not asked anew."""
        wanted = frozenset(targets)
        if wanted != self._targets:
            self._targets = wanted
            self._changed.set()

    async def stop(self) -> None:
        """Ask no more; return when nothing is under way."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        asked: dict[Target, list[asyncio.Task[None]]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for target in asked.keys() - self._targets:
                    for task in asked.pop(target):
                        task.cancel()
                for target in sorted(self._targets - asked.keys(), key=_by_pod):
                    asked[target] = [
                        group.create_task(repeat(target)) for repeat in self._repeats(target)
                    ]
                self._changed.clear()
                await self._changed.wait()


def _by_pod(target: Target) -> tuple[str, str]:
    return target.pod, target.uid


@dataclass(slots=True)
class _Followed:
    poller: Poller
    uids: frozenset[str] = frozenset()
    boundaries: tuple[int, ...] = ()


class CosmosCache:
    """What all nodes last said; see `Observations`.

    It is a runnable: when its manager stops, nothing is asked any more, and nothing is under way when that
    has ended.
    """

    runnable_group = Group.CACHES

    def __init__(
        self,
        pods_of: PodsOf,
        options: CacheOptions,
        registry: CollectorRegistry,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._pods_of = pods_of
        self._now = now
        self._client = NodeClient(deadline=options.deadline)
        self._pool = Pool(options.at_once)
        self.metrics = CacheMetrics(registry)
        self._statuses = self._questions("status", self._ask_status, options.interval)
        self._disks = self._questions("disk", self._ask_disk, options.disk_interval)
        self._sets: dict[tuple[str, str], _Followed] = {}
        self._in_sync_since: dict[str, datetime] = {}
        self._answered_at: dict[str, datetime] = {}
        self._silent_since: dict[str, datetime] = {}
        self._noted: dict[str, tuple[datetime, float]] = {}
        """When each was asked last: by the time of day, and in seconds of a clock that is never set."""
        self._earlier: dict[str, Record[NodeStatus]] = {}
        self._news = News()
        self._listeners: list[Callable[[Request], None]] = []
        self._disk_listeners: list[Callable[[Request], None]] = []
        self._closed = False
        self.metrics.read(
            age=self._age,
            under_way=lambda: self._pool.under_way,
            waiting=lambda: self._pool.waiting,
            nodes=self._count,
        )

    # -- what is known -------------------------------------------------------------------------

    def collect(self, namespace: str, name: str) -> list[Observation]:
        """One for each main Pod that exists, by ordinal.

        Nodes of Pods that are being deleted do not count as reachable, whatever they said.
        """
        return [self._observation(entry) for entry in self._pods(namespace, name)]

    def synced(self, namespace: str, name: str) -> list[Observation]:
        """Those in sync whose Pod has been ready for the minimum time, by ordinal."""
        now = self._now()
        seen = ((entry, self._observation(entry)) for entry in self._pods(namespace, name))
        return [found for entry, found in seen if found.is_in_sync and is_settled(entry, now)]

    def disks(self, namespace: str, name: str) -> list[DiskObservation]:
        """Return the usage of the disk of each main Pod that is not being deleted, by ordinal."""
        found: list[DiskObservation] = []
        for entry in self._pods(namespace, name):
            if not is_terminating(entry):
                record = self._disks.memory.get(entry.uid)
                ordinal = ordinal_of(entry)
                usage, error = record.answer, record.error
                found.append(DiskObservation(entry.name, ordinal, record.at, usage, error))
        return found

    def invalidate(self, namespace: str, name: str, pods: Iterable[str]) -> None:
        """Forget what these Pods said, and what they may be saying to a question already under way."""
        named = set(pods)
        for entry in self._pods(namespace, name):
            if entry.name in named:
                self._statuses.memory.invalidate(entry.uid)
                self._forget_answers(entry.uid)

    def subscribe(self, changed: Callable[[Request], None]) -> None:
        """Subscribe to changes of a set; see `Observations`."""
        self._listeners.append(changed)

    def subscribe_disks(self, changed: Callable[[Request], None]) -> None:
        """Subscribe to sets where the usage of a disk changed by a percent, or became unknown or known again."""
        self._disk_listeners.append(changed)

    # -- who is asked --------------------------------------------------------------------------

    def followed(self) -> list[Request]:
        """Return the sets whose nodes are asked."""
        return [Request(name, namespace=namespace) for namespace, name in self._sets]

    def follow(
        self,
        namespace: str,
        name: str,
        *,
        folder: str = "",
        boundaries: Iterable[int] = (),
        chain_id: str = "",
    ) -> None:
        """Ask the nodes of a set as its Pods now are.

        `folder`: where the disk of each is mounted; empty if its usage is not needed. `boundaries`: heights
        that are reported to listeners at once. `chain_id`: an answer of another network is an error; empty if
        any network may answer.
        """
        if self._closed:
            return
        key, pods = (namespace, name), self._pods(namespace, name)
        followed = self._sets.get(key)
        if followed is None:
            poller = Poller(f"nodes of {namespace}/{name}", partial(self._repeats, namespace, name))
            followed = self._sets[key] = _Followed(poller)
        followed.boundaries = tuple(boundaries)
        found = (target_of(entry, folder, chain_id) for entry in pods)
        targets = [target for target in found if target is not None]
        asked = frozenset(target.uid for target in targets)
        # One that is being deleted is asked no more; what it said last is of no use either.
        for uid in followed.uids - asked:
            self._drop(uid)
        followed.uids = asked
        for target in targets:
            self._statuses.memory.add(target.uid)
            (self._disks.memory.add if folder else self._disks.memory.drop)(target.uid)
        followed.poller.follow(targets)
        self._notify(namespace, name)

    async def forget(self, namespace: str, name: str) -> None:
        """Ask the nodes of a set no more. Returns when none of it is under way."""
        followed = self._sets.pop((namespace, name), None)
        self._news.forget((namespace, name))
        if followed is not None:
            await followed.poller.stop()
            for uid in followed.uids:
                self._drop(uid)

    async def start(self) -> None:
        """Until cancelled; then ask no more."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop polling. Returns when no request is in flight."""
        self._closed = True
        followed = list(self._sets.values())
        self._sets.clear()
        await asyncio.gather(*(each.poller.stop() for each in followed))
        await self._client.close()

    # -- questions -----------------------------------------------------------------------------

    def _questions(
        self, name: str, ask: Callable[[Target], Awaitable[T]], interval: float
    ) -> Questions[T]:
        return Questions(
            ask=ask,
            pace=Pace(interval=interval),
            pool=self._pool,
            metrics=self.metrics.of(name),
            now=self._now,
        )

    def _repeats(self, namespace: str, name: str, target: Target) -> Sequence[Repeat]:
        told = partial(self._answered, namespace, name, target.uid)
        status = partial(self._statuses.repeat, answered=told)
        if not target.folder:
            return (status,)
        disk_told = partial(self._disk_answered, namespace, name)
        return status, partial(self._disks.repeat, answered=disk_told)

    async def _ask_status(self, target: Target) -> NodeStatus:
        return require_network(await self._client.status(target.address), target.chain_id)

    async def _ask_disk(self, target: Target) -> DiskUsage:
        return await self._client.usage(target.address, target.folder)

    # -- inside --------------------------------------------------------------------------------

    def _pods(self, namespace: str, name: str) -> list[Entry]:
        return sorted(filter(is_main, self._pods_of(namespace, name)), key=by_ordinal)

    def _observation(self, entry: Entry) -> Observation:
        record = self._statuses.memory.get(entry.uid)
        place = entry.name, entry.uid, ordinal_of(entry)
        if is_terminating(entry):
            return Observation(*place, at=record.at, error=TERMINATING)
        if record.answer is None:
            return Observation(
                *place,
                at=record.at,
                error=_why_unknown(entry, record),
                answered_at=self._answered_at.get(entry.uid),
                silent_since=self._silent_since.get(entry.uid),
            )
        said = record.answer
        earlier = self._earlier.get(entry.uid)
        return Observation(
            *place,
            record.at,
            said.height,
            said.catching_up,
            in_sync_since=self._in_sync_since.get(entry.uid),
            earlier_at=None if earlier is None else earlier.at,
            earlier_height=None if earlier is None else _height(earlier),
            node_id=said.node_id,
            block_at=said.block_at,
        )

    def _answered(
        self,
        namespace: str,
        name: str,
        uid: str,
        before: Record[NodeStatus],
        after: Record[NodeStatus],
    ) -> None:
        """Look closer at a set only if there may be news: most answers are but another height."""
        self._earlier[uid] = before
        if after.at is not None:
            self._follow_clock(uid, after.at, after.began)
        if after.at is not None and after.failure in SILENT:
            self._silent_since.setdefault(uid, after.at)
        elif after.at is not None:  # an answer that cannot be used is one, too
            self._answered_at[uid] = after.at
            self._silent_since.pop(uid, None)
        if _state(after) != "in_sync":
            self._in_sync_since.pop(uid, None)
        elif after.at is not None:
            self._in_sync_since.setdefault(uid, after.at)
        due = self._news.heights_are_due((namespace, name), monotonic())
        followed = self._sets.get((namespace, name))
        boundaries = () if followed is None else followed.boundaries
        crossed = reached(_height(before), boundaries) != reached(_height(after), boundaries)
        stalled = _is_stalled(before) != _is_stalled(after)
        if due or crossed or stalled or _state(before) != _state(after):
            self._notify(namespace, name)

    def _notify(self, namespace: str, name: str) -> None:
        seen, followed = self.collect(namespace, name), self._sets.get((namespace, name))
        boundaries = () if followed is None else followed.boundaries
        if self._news.is_news((namespace, name), seen, monotonic(), boundaries):
            for listener in self._listeners:
                listener(Request(name, namespace=namespace))

    def _disk_answered(
        self, namespace: str, name: str, before: Record[DiskUsage], after: Record[DiskUsage]
    ) -> None:
        if before.at is None or _percent(before) != _percent(after):
            for listener in self._disk_listeners:
                listener(Request(name, namespace=namespace))

    def _drop(self, uid: str) -> None:
        self._forget_answers(uid)
        self._statuses.memory.drop(uid)
        self._disks.memory.drop(uid)

    def _follow_clock(self, uid: str, at: datetime, began: float) -> None:
        """Move what was noted by a clock that has been set since: else a node seems to be silent since a time to come, or never to have answered."""
        noted, self._noted[uid] = self._noted.get(uid), (at, began)
        if noted is None:
            return
        # Both clocks as they were when it was asked: an answer may come minutes later.
        jump = at - noted[0] - timedelta(seconds=began - noted[1])
        if abs(jump) > _JUMP:
            for times in (self._in_sync_since, self._answered_at, self._silent_since):
                if uid in times:
                    times[uid] += jump

    def _forget_answers(self, uid: str) -> None:
        self._in_sync_since.pop(uid, None)
        self._earlier.pop(uid, None)
        self._answered_at.pop(uid, None)
        self._silent_since.pop(uid, None)
        self._noted.pop(uid, None)

    # -- metrics -------------------------------------------------------------------------------

    def _age(self) -> float:
        times = [record.at for record in self._statuses.memory.records() if record.at is not None]
        return max(0.0, (self._now() - min(times)).total_seconds()) if times else 0.0

    def _count(self, state: str) -> float:
        return sum(_state(record) == state for record in self._statuses.memory.records())


def _why_unknown(entry: Entry, record: Record[NodeStatus]) -> str:
    """Why a node has not answered: what its Pod shows comes before the words of a connection that fails for it."""
    pollable = target_of(entry) is not None
    if pollable and record.at is None:
        return record.error
    if trouble := pod_trouble(entry):
        return f"{OF_POD}{trouble}"
    return record.error if pollable or record.at else WITHOUT_ADDRESS


def _percent(record: Record[DiskUsage]) -> int | None:
    return None if record.answer is None else record.answer.percent


def _height(record: Record[NodeStatus]) -> int | None:
    return None if record.answer is None else record.answer.height


def _is_stalled(record: Record[NodeStatus]) -> bool:
    return record.answer is not None and is_old_block(record.answer.block_at, record.at)


def _state(record: Record[NodeStatus]) -> str:
    if record.at is None:
        return "not_asked"
    if record.answer is None:
        return "unreachable"
    return "catching_up" if record.answer.catching_up else "in_sync"


@dataclass(slots=True)
class _Reported:
    words: dict[str, Hashable] = field(default_factory=dict)
    """By UID: whether it is in sync, can be reached, and has no new block."""
    heights: dict[str, int | None] = field(default_factory=dict)
    at: float = 0.0


class News:
    """Holds what was last reported of each set."""

    def __init__(self) -> None:
        self._reported: dict[Hashable, _Reported] = {}

    def is_news(
        self,
        key: Hashable,
        observations: Iterable[Observation],
        now: float,
        boundaries: Collection[int] = (),
    ) -> bool:
        """Whether to report to the set's listeners; if so, it counts as reported.

        `now` in seconds, never going back. The first look at a set without an answer is no news.
        `boundaries`: heights that a listener waits for; that a node makes one of them next is reported at
        once.
        """
        seen = list(observations)
        words = {each.uid: _word(each, boundaries) for each in seen if each.at is not None}
        heights = {each.uid: each.height for each in seen if each.is_reachable}
        reported = self._reported.get(key)
        if reported is None:
            reported = self._reported[key] = _Reported(at=now)
        if words == reported.words and (
            heights == reported.heights or now - reported.at < SECONDS_OF_HEIGHTS
        ):
            return False
        self._reported[key] = _Reported(words, heights, now)
        return True

    def heights_are_due(self, key: Hashable, now: float) -> bool:
        """Whether the set's heights, if they changed, would be news by now."""
        reported = self._reported.get(key)
        return reported is None or now - reported.at >= SECONDS_OF_HEIGHTS

    def forget(self, key: Hashable) -> None:
        """Forget a set that is gone."""
        self._reported.pop(key, None)


def _word(observation: Observation, boundaries: Collection[int]) -> Hashable:
    passed = reached(observation.height, boundaries)
    return observation.is_in_sync, observation.is_reachable, observation.is_stalled, passed


def reached(height: int | None, boundaries: Iterable[int]) -> int:
    """How many of the boundaries a node of that last block has reached: it makes the next one."""
    following = 0 if height is None else height + 1
    return sum(boundary <= following for boundary in boundaries)
