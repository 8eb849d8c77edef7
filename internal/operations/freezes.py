"""The ChangeFreezes as the cache has them, and the objects of one system whose changes they hold."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from pydantic import ValidationError

from apis.operations import ChangeFreeze, FrozenSystem
from ctrlruntime.cache import DeleteEvent, Entry, Event
from ctrlruntime.controller.predicates import entries_of
from ctrlruntime.memo import VersionMemo
from ctrlruntime.queue import Request
from ctrlruntime.rollout import Freeze, FrozenObject, Reason, Waiting, next_edge
from internal.operations.exemptions import ExemptionRequests, hold_for

UNREADABLE: Final = "its spec cannot be read"
UNKNOWN: Final = (
    "it is not known yet whether a ChangeFreeze holds all changes: the manager has to be able to list and watch "
    "changefreezes.operations.ctrlruntime.dev"
)
LONGEST_WAIT: Final = timedelta(minutes=1)
"""After which the time is compared again, in case the clock was set."""
WHILE_UNKNOWN: Final = timedelta(seconds=2)
FIRST_PASSES: Final = timedelta(seconds=10)
"""After the start, in which counts of what is held are not complete."""


class FreezeInformer(Protocol):
    """The informer of ChangeFreezes."""

    readable: bool
    missing_since: float | None

    @property
    def store(self) -> Iterable[Entry]: ...


def freeze_of(entry: Entry) -> Freeze:
    """Return an object of the cache as a freeze; one that cannot be read holds everything."""
    try:
        spec = entry.typed(ChangeFreeze).spec
    except ValidationError:
        return Freeze(name=entry.name, why=UNREADABLE)
    return Freeze(
        name=entry.name,
        why=spec.reason,
        systems=frozenset(item.value for item in spec.systems),
        namespaces=frozenset(spec.namespaces),
        exempt=frozenset(FrozenObject(i.kind.value, i.namespace, i.name) for i in spec.exempt),
        starts_at=spec.starts_at,
        until=spec.until,
    )


def frozen_of(entry: Entry) -> int:
    """Return how many changes of an object a freeze holds, by its status."""
    waiting = (entry.field("status") or {}).get("waiting") or {}
    frozen = waiting.get("reason") == Reason.FROZEN.value
    return int(waiting.get("changes") or 0) if frozen else 0


@dataclass(slots=True)
class SystemFreezes:
    """Holds what is frozen for the controllers of one system, and requeues their objects when that changes.

    Until the first list of freezes was read, everything is held. A server without the kind has no freezes.
    """

    system: FrozenSystem
    informer: FreezeInformer
    clock: Callable[[], datetime]
    on_counts: Callable[[], None] = lambda: None
    """Called when what is held changes, or who requests an exemption."""
    requests: ExemptionRequests = field(default_factory=ExemptionRequests)
    needs_leader_election: bool = True
    """Whether objects wait in the leader alone: several managers that share them each wake their own."""
    reported: Callable[[], Iterable[tuple[str, int]]] | None = None
    """Returns, of what several managers share, the namespace of each object and how many changes of it are held; None: holders
    have them all."""
    _started: datetime | None = None
    _holders: list[Holder] = field(default_factory=list)
    _memo: VersionMemo[str, Freeze] = field(default_factory=lambda: VersionMemo(256))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def holder(
        self,
        wake: Callable[[Request], None],
        others: Callable[[], Iterable[Request]] = lambda: (),
        *,
        divided: bool = False,
    ) -> Holder:
        """Return the holds of one controller. `divided`: of objects that managers share.

        `wake` queues an object. When a freeze begins or ends that is done for the objects with changes that wait,
        and for `others`.
        """
        made = Holder(self, wake, others, divided)
        self._holders.append(made)
        return made

    def waiting(self, namespace: str, frozen: Entry | None = None) -> Waiting | None:
        """Return why changes of an object wait in a namespace; None: they may be made."""
        if not self.is_known:
            return Waiting(Reason.FROZEN, UNKNOWN)
        return hold_for(self.freezes(), self.system.value, namespace, frozen, self.clock())

    @property
    def is_known(self) -> bool:
        """Whether the freezes were read, or the server does not serve the kind."""
        return self.informer.readable or self.informer.missing_since is not None

    def freezes(self) -> Iterator[Freeze]:
        """Return all freezes, active or not."""
        for entry in self.informer.store:
            yield self.freeze(entry)

    def freeze(self, entry: Entry) -> Freeze:
        return self._memo.compute(entry.uid, entry.resource_version, lambda: freeze_of(entry))

    def held_by(self, freeze: Freeze) -> int:
        """Return how many changes of the system a freeze that is active holds."""
        held = [
            (request.namespace, count)
            for holder in self._holders
            if self.reported is None or not holder.divided
            for request, count in holder.held.items()
        ]
        if self.reported is not None:
            held += self.reported()
        return sum(count for space, count in held if freeze.covers(self.system.value, space))

    def incomplete_for(self) -> timedelta:
        """Return for how long counts may still be lower than they are; zero: they are complete."""
        if self._started is None:
            return FIRST_PASSES
        return max(self._started + FIRST_PASSES - self.clock(), timedelta(0))

    def freeze_changed(self, event: Event) -> None:
        """Handle an event of the informer."""
        if isinstance(event, DeleteEvent):
            self._memo.forget(event.old.uid)
        self._changed.set()

    def report_changed(self, held: Callable[[Entry], int], timed: bool, event: Event) -> None:
        """Handle an event of objects that several managers share. `held`: how many changes of one are held.

        `timed`: that changes as time passes, so an event that shows it may have the same count before and after.
        """
        counts = [held(each) for each in entries_of(event)]
        if counts[0] != counts[-1] or (counts[0] and (timed or len(counts) == 1)):
            self.on_counts()

    def object_changed(self, event: Event) -> None:
        """Handle an event of the informer of a kind whose objects can be exempted."""
        if self.requests.observe(event):
            self.on_counts()

    def served_changed(self) -> None:
        """Compare again, since the server serves the kind now or no longer."""
        self._changed.set()

    async def start(self) -> None:
        """Wake what waits whenever a freeze begins or ends. Run until cancelled."""
        before, self._started = self._active(), self.clock()
        while True:
            now = self.clock()
            edge = next_edge(self.freezes(), now)
            most = LONGEST_WAIT if self.is_known else WHILE_UNKNOWN
            wait = most if edge is None else min(most, edge - now)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(wait.total_seconds(), 0.01)):
                    await self._changed.wait()
            self._changed.clear()
            active = self._active()
            if active != before:
                before = active
                for holder in self._holders:
                    holder.wake_all()
                self.on_counts()

    def _active(self) -> frozenset[Freeze] | None:
        """Return the freezes that hold changes of the system now; None: they are not known."""
        if not self.is_known:
            return None
        now = self.clock()
        return frozenset(
            item
            for item in self.freezes()
            if item.is_active(now) and (not item.systems or self.system.value in item.systems)
        )


@dataclass(slots=True)
class Holder:
    """What is held of the objects of one controller."""

    freezes: SystemFreezes
    wake: Callable[[Request], None]
    others: Callable[[], Iterable[Request]]
    divided: bool = False
    """Whether others have holds of more objects of the kind: those are counted by what objects report."""
    held: dict[Request, int] = field(default_factory=dict)
    """How many changes wait, by object."""

    def waiting(self, request: Request, frozen: Entry | None = None) -> Waiting | None:
        """Return why changes of an object wait; None: they may be made."""
        return self.freezes.waiting(request.namespace, frozen)

    def record(self, request: Request, changes: int) -> None:
        """Record how many changes of an object a freeze holds."""
        if self.held.get(request, 0) == changes:
            return
        if changes:
            self.held[request] = changes
        else:
            del self.held[request]
        self.freezes.on_counts()

    def forget(self, request: Request) -> None:
        """Record that an object is gone."""
        self.record(request, 0)

    def wake_all(self) -> None:
        """Queue the objects with changes that wait, and the others."""
        for request in {*self.held, *self.others()}:
            self.wake(request)
