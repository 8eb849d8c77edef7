"""The ledger: who runs and who waits, in the memory of the one process that leads. Pure.

It is the only place where a start is granted, so a grant and the count it rests on are one step and
no cache can be stale. The record in each object's status is the claim that outlives the process; the
ledger is rebuilt from those (see `rebuild`).

First come, first served, by (turn, uid). The turn is when the wait began; a High priority has it `lead` earlier and a Low
one later, so that a patch overtakes what waits, and what has waited longer by more than that is overtaken no more.
A run that holds a place keeps it. Who waits for a busy instance keeps its place and does not
keep others from passing it. Of one instance, exclusive tasks go strictly in turn.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from apis.cloud import TaskPriority, Waiting, WaitingReason
from internal.cloud.concurrency.checker import Claim, Denial, Granted, Verdict
from internal.cloud.runs import RunOwner

Place = tuple[float, str]
"""The turn in seconds since 1970, and the owner's UID."""
LEAD: Final = 24 * 3600.0
"""Seconds by which a High priority goes before a Normal one, and a Normal one before a Low one."""
_LEADS: Final = {TaskPriority.LOW: -1, TaskPriority.NORMAL: 0, TaskPriority.HIGH: 1}
InstanceKey = tuple[str, str]
"""Namespace and name."""
FORESEEN: Final = 10
"""Minutes for which is reckoned when who waits for the rate may start."""
_MINUTE: Final = timedelta(seconds=60)
_REMEMBERED: Final = 50
"""Durations that estimates rest on."""


@dataclass(slots=True)
class Tempo:
    """Starts of the last minute and durations of the last runs."""

    _starts: list[datetime] = field(default_factory=list)
    _durations: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def started(self, at: datetime) -> None:
        """Count a run that started."""
        insort(self._starts, at)
        self.recent(self._starts[-1])

    def retract(self, at: datetime) -> None:
        """Take back a run that was recorded as started then and did not."""
        if at in self._starts:
            self._starts.remove(at)

    def recent(self, now: datetime) -> int:
        """Return the number of starts in the last 60 seconds."""
        while self._starts and now - self._starts[0] >= _MINUTE:
            del self._starts[0]
        return len(self._starts)

    def free_in(self, now: datetime, rate: int, behind: int) -> float:
        """Seconds until another start fits, with `behind` others to come first."""
        self.recent(now)
        starts = list(self._starts)
        free = now
        for _ in range(behind + 1):
            free = max(now, starts[-rate] + _MINUTE) if len(starts) >= rate else now
            starts.append(free)
        return max(0.0, (free - now).total_seconds())

    def took(self, seconds: float) -> None:
        """Record a run that ended after so many seconds."""
        self._durations.append(max(0.0, seconds))

    @property
    def usual(self) -> float | None:
        """Seconds that a run takes, judged by the last ones; None if nothing is known."""
        return sum(self._durations) / len(self._durations) if self._durations else None


@dataclass(slots=True)
class _Holder:
    claim: Claim
    since: datetime
    sure: bool
    """Whether its run exists, or was granted here; otherwise another process meant to start it."""

    @property
    def order(self) -> tuple[datetime, str]:
        return (self.since, self.claim.owner.uid)


@dataclass(slots=True)
class _Waiter:
    claim: Claim
    place: Place
    """In the queues. It stays the same while it waits with the same priority."""
    expected: datetime | None = None
    """When it should have asked again; None: its turn has not come."""


@dataclass(slots=True)
class _Type:
    """What there is of one type of task."""

    holders: dict[str, _Holder] = field(default_factory=dict)
    """By UID, longest first."""
    queue: list[Place] = field(default_factory=list)
    tempo: Tempo = field(default_factory=Tempo)


@dataclass(slots=True)
class _Instance:
    """What there is of one instance: exclusive tasks only."""

    holders: dict[str, _Holder] = field(default_factory=dict)
    queue: list[Place] = field(default_factory=list)


class ConcurrencyLimiter:
    """A :class:`ConcurrencyChecker`.

    `wake` is called for owners that should ask again; it must not call back at once. `patience`: seconds that
    a place is kept for who was woken and does not ask. `lead`: seconds that one priority goes before the next.
    """

    def __init__(
        self,
        clock: Callable[[], datetime],
        wake: Callable[[RunOwner], None] = lambda _owner: None,
        *,
        patience: float = 60.0,
        lead: float = LEAD,
    ) -> None:
        self._clock = clock
        self._wake = wake
        self._patience = timedelta(seconds=patience)
        self._lead = lead
        self._types: dict[str, _Type] = {}
        self._instances: dict[InstanceKey, _Instance] = {}
        self._holders: dict[str, _Holder] = {}
        self._waiters: dict[str, _Waiter] = {}

    # -- the protocol ------------------------------------------------------------------------------

    def acquire(self, claim: Claim) -> Verdict:
        """May the run start? Called only for a run that is not under way.

        An owner that another process granted keeps its place if there was room for it, since the
        start may be on its way still; otherwise it waits like any other.
        """
        uid = claim.owner.uid
        holder = self._holders.get(uid)
        if holder is not None and (holder.sure or self._had_room(holder)):
            holder.sure = True
            return Granted()
        now = self._clock()
        if holder is not None:
            claim = replace(claim, since=min(claim.since, holder.since))
            self._drop_holder(holder)
            self._type(claim).tempo.retract(holder.since)
        known = self._waiters.get(uid)
        before = None if known is None else known.place
        waiter = self._wait(claim)
        denied = self._judge(waiter, now)
        if denied is None:
            self._drop_waiter(waiter)
            self._add_holder(_Holder(claim, now, sure=True))
            self._type(claim).tempo.started(now)
            return Granted()
        again = denied.again
        waiter.expected = None if again is None else now + timedelta(seconds=again)
        if holder is not None or (before is not None and before < waiter.place):
            self._wake_next(now)
        return denied

    def hold(self, claim: Claim) -> None:
        """Count a run of the owner that is under way, whatever the limit is."""
        self.learn(claim, since=self._clock(), sure=True)

    def release(self, owner: RunOwner) -> None:
        """Free the place of an owner whose run has ended or which no longer waits."""
        self.forget(owner.uid, ended=True)

    # -- what others tell --------------------------------------------------------------------------

    def learn(self, claim: Claim, *, since: datetime, sure: bool) -> bool:
        """Record that a status has a run holding a place since then. True if that was not known.

        Not `sure`: the status says it is being started, and nobody knows whether it came to be.
        """
        uid = claim.owner.uid
        known = self._holders.get(uid)
        if known is not None:
            known.sure = known.sure or sure
            return False
        waiter = self._waiters.get(uid)
        if waiter is not None:
            self._drop_waiter(waiter)
        self._add_holder(_Holder(claim, since, sure=sure))
        self._type(claim).tempo.started(since)
        return True

    def queue(self, claim: Claim) -> None:
        """Queue an owner whose status has it waiting: it takes its place, and is expected soon."""
        if claim.owner.uid not in self._holders and claim.owner.uid not in self._waiters:
            self._wait(claim).expected = self._clock()

    def ran(self, task: str, since: datetime, until: datetime) -> None:
        """Count a run of a type that started and ended before this ledger was there."""
        tempo = self._types.setdefault(task, _Type()).tempo
        tempo.started(since)
        tempo.took((until - since).total_seconds())

    def retract(self, uid: str) -> None:
        """Take back a place that was granted and could not be recorded: it counts as no start."""
        if (holder := self._holders.get(uid)) is not None:
            self._type(holder.claim).tempo.retract(holder.since)
        self.forget(uid)

    def forget(self, uid: str, *, ended: bool = False) -> None:
        """Forget an object that is gone, or has neither a run nor a place. `ended`: its run has."""
        now = self._clock()
        holder, waiter = self._holders.get(uid), self._waiters.get(uid)
        if holder is not None:
            self._drop_holder(holder)
            if ended:
                self._type(holder.claim).tempo.took((now - holder.since).total_seconds())
        if waiter is not None:
            self._drop_waiter(waiter)
        if holder is not None or waiter is not None:
            self._wake_next(now)

    # -- what is known -----------------------------------------------------------------------------

    def running(self, task: str) -> int:
        """How many places of a type are held."""
        return len(self._types[task].holders) if task in self._types else 0

    def waiting(self, task: str) -> int:
        """How many wait for a place."""
        return len(self._types[task].queue) if task in self._types else 0

    def holds(self, uid: str) -> bool:
        """Whether an owner holds a place."""
        return uid in self._holders

    def held_by(self, uid: str) -> Claim | None:
        """Return the claim by which an owner holds a place, as it was when that was granted or learned."""
        holder = self._holders.get(uid)
        return None if holder is None else holder.claim

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self, waiter: _Waiter, now: datetime) -> Denial | None:
        """Why it has to wait; None if it may start."""
        rival = self._rival(waiter, now)
        if rival is not None:
            return self._busy(waiter, rival, now)
        kind, limits = self._type(waiter.claim), waiter.claim.concurrency
        if limits.limit:
            free = limits.limit - len(kind.holders)
            if free <= 0 or self._ahead(waiter, now, free) >= free:
                return self._full(waiter)
        if limits.starts_per_minute:
            left = limits.starts_per_minute - kind.tempo.recent(now)
            ahead = self._ahead(waiter, now, max(left, 0) + FORESEEN * limits.starts_per_minute)
            if ahead >= left:
                return self._too_fast(waiter, ahead - left, now)
        return None

    def _had_room(self, holder: _Holder) -> bool:
        """Whether a place that another process gave away is within the limits.

        Of those that are not sure the latest give way: what was recorded late, after the process
        could no longer start anything, cannot be on its way.
        """
        claim = holder.claim

        def before(others: dict[str, _Holder]) -> int:
            return sum(other.sure or other.order < holder.order for other in others.values())

        limit = claim.concurrency.limit
        if limit and before(self._type(claim).holders) >= limit:
            return False
        if not claim.concurrency.exclusive:
            return True
        return before(self._instances[_instance_of(claim)].holders) == 0

    def _ahead(self, waiter: _Waiter, now: datetime, most: int) -> int:
        """How many before it may start too, as far as it matters."""
        ahead = 0
        for other in self._eligible(self._type(waiter.claim), now):
            if other is waiter or ahead >= most:
                break
            ahead += 1
        return ahead

    def _eligible(self, kind: _Type, now: datetime) -> Iterator[_Waiter]:
        """Those of a type who only wait for its limits, in order, and who come when called."""
        for _, uid in kind.queue:
            waiter = self._waiters[uid]
            if not self._is_absent(waiter, now) and self._rival(waiter, now) is None:
                yield waiter

    def _rival(self, waiter: _Waiter, now: datetime) -> Claim | None:
        """Who of the same instance comes first: whoever runs, or else who has waited longer."""
        claim = waiter.claim
        if not claim.concurrency.exclusive:
            return None
        instance = self._instances[_instance_of(claim)]
        for uid, holder in instance.holders.items():
            if uid != claim.owner.uid:
                return holder.claim
        for place in instance.queue:
            if place >= waiter.place:
                return None
            other = self._waiters[place[1]]
            if not self._is_absent(other, now):
                return other.claim
        return None

    def _is_absent(self, waiter: _Waiter, now: datetime) -> bool:
        return waiter.expected is not None and now - waiter.expected > self._patience

    # -- telling why -------------------------------------------------------------------------------

    def _busy(self, waiter: _Waiter, rival: Claim, now: datetime) -> Denial:
        instance = self._instances[_instance_of(waiter.claim)]
        position = 1 + bisect_left(instance.queue, waiter.place)
        holder = instance.holders.get(rival.owner.uid)
        elapsed = (now - holder.since).total_seconds() if holder is not None else 0.0
        usual = self._type(rival).tempo.usual
        estimate = None if usual is None else max(0.0, usual - elapsed)
        return self._denied(
            waiter, WaitingReason.INSTANCE_BUSY, 0, position, _name(rival), estimate
        )

    def _full(self, waiter: _Waiter) -> Denial:
        kind, limit = self._type(waiter.claim), waiter.claim.concurrency.limit
        position = 1 + bisect_left(kind.queue, waiter.place)
        usual = kind.tempo.usual
        estimate = None if usual is None else usual * position / max(1, limit)
        return self._denied(
            waiter, WaitingReason.LIMIT, limit, position, self._longest(kind), estimate
        )

    def _too_fast(self, waiter: _Waiter, behind: int, now: datetime) -> Denial:
        kind, rate = self._type(waiter.claim), waiter.claim.concurrency.starts_per_minute
        position = 1 + bisect_left(kind.queue, waiter.place)
        again = kind.tempo.free_in(now, rate, behind)
        holder = self._longest(kind)
        denied = self._denied(waiter, WaitingReason.RATE, rate, position, holder, again)
        return replace(denied, again=again)

    def _longest(self, kind: _Type) -> str:
        holder = next(iter(kind.holders.values()), None)
        return "" if holder is None else _name(holder.claim)

    def _denied(
        self,
        waiter: _Waiter,
        reason: WaitingReason,
        limit: int,
        position: int,
        holder: str,
        estimate: float | None,
    ) -> Denial:
        priority = waiter.claim.priority
        return Denial(
            Waiting(
                reason=reason,
                limit=limit,
                priority=None if priority is TaskPriority.NORMAL else priority,
                position=position,
                holder=holder,
                since=waiter.claim.since,
                estimate=None if estimate is None else timedelta(seconds=round(estimate)),
            )
        )

    # -- keeping the books -------------------------------------------------------------------------

    def _type(self, claim: Claim) -> _Type:
        return self._types.setdefault(claim.task, _Type())

    def _wait(self, claim: Claim) -> _Waiter:
        """Return the owner's place in the queues; the one it has already, if it has."""
        known = self._waiters.get(claim.owner.uid)
        if known is not None:
            if known.claim.task == claim.task and _instance_of(known.claim) == _instance_of(claim):
                claim = replace(claim, since=known.claim.since)
                if known.claim.priority is claim.priority:
                    known.claim, known.expected = claim, None
                    return known
            self._drop_waiter(known)
        waiter = self._waiters[claim.owner.uid] = _Waiter(claim, self._place(claim))
        insort(self._type(claim).queue, waiter.place)
        if claim.concurrency.exclusive:
            instance = self._instances.setdefault(_instance_of(claim), _Instance())
            insort(instance.queue, waiter.place)
        return waiter

    def _place(self, claim: Claim) -> Place:
        ahead = self._lead * _LEADS[claim.priority]
        return (claim.since.timestamp() - ahead, claim.owner.uid)

    def _drop_waiter(self, waiter: _Waiter) -> None:
        del self._waiters[waiter.claim.owner.uid]
        _take_out(self._type(waiter.claim).queue, waiter.place)
        if waiter.claim.concurrency.exclusive:
            key = _instance_of(waiter.claim)
            _take_out(self._instances[key].queue, waiter.place)
            self._tidy(key)

    def _add_holder(self, holder: _Holder) -> None:
        claim = holder.claim
        self._holders[claim.owner.uid] = holder
        self._type(claim).holders[claim.owner.uid] = holder
        if claim.concurrency.exclusive:
            instance = self._instances.setdefault(_instance_of(claim), _Instance())
            instance.holders[claim.owner.uid] = holder

    def _drop_holder(self, holder: _Holder) -> None:
        claim = holder.claim
        del self._holders[claim.owner.uid]
        del self._type(claim).holders[claim.owner.uid]
        if claim.concurrency.exclusive:
            key = _instance_of(claim)
            del self._instances[key].holders[claim.owner.uid]
            self._tidy(key)

    def _tidy(self, key: InstanceKey) -> None:
        instance = self._instances[key]
        if not instance.holders and not instance.queue:
            del self._instances[key]

    def _wake_next(self, now: datetime) -> None:
        """Call those who may start now and do not know it yet."""
        for kind in self._types.values():
            for waiter in self._callable(kind, now):
                waiter.expected = now
                self._wake(waiter.claim.owner)

    def _callable(self, kind: _Type, now: datetime) -> list[_Waiter]:
        found: list[_Waiter] = []
        for waiter in self._eligible(kind, now):
            limit = waiter.claim.concurrency.limit
            if limit and len(found) >= limit - len(kind.holders):
                break
            found.append(waiter)
        return [waiter for waiter in found if waiter.expected is None]


def _instance_of(claim: Claim) -> InstanceKey:
    return (claim.owner.namespace, claim.instance)


def _name(claim: Claim) -> str:
    return f"{claim.owner.kind}/{claim.owner.name}"


def _take_out(queue: list[Place], place: Place) -> None:
    at = bisect_left(queue, place)
    if at < len(queue) and queue[at] == place:
        del queue[at]
