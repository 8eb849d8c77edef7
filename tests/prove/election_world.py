"""Leader election: at no moment may two candidates write, and one of them always comes to lead."""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, Self

import structlog

from ctrlruntime.client.errors import AlreadyExists, Conflict
from ctrlruntime.envtest.simulation.loop import SimLoop
from ctrlruntime.envtest.simulation.network import Network
from ctrlruntime.envtest.simulation.trace import Trace
from ctrlruntime.manager.election import ElectionOptions, LeaderElector
from ctrlruntime.manager.lease import LeaderRecord
from tests.prove.explorer import Model, ModelScope, Violated

_OPTIONS = ElectionOptions(lease_duration=4.0, renew_deadline=2.0, retry_period=1.0)
"""What is left for a request under way is one second."""
_START = datetime(2030, 1, 1, tzinfo=UTC)
_LOOP = SimLoop(Network(lambda: 0.0), Trace(every_step=False))
_MET = ("", "away", "lost", "refused", "slow")
"""What an attempt may meet: a server that is away, then or for the write; no answer; a second on the way. Or the
number of another candidate, which tries just before the write."""
_UNDER_WAY = 1
"""Seconds that a write may be under way."""


class Lock:
    """The lock as one candidate sees it."""

    def __init__(self, world: Election) -> None:
        self.world = world
        self.version = 0

    async def get(self) -> LeaderRecord | None:
        """Return the record."""
        world = self.world
        if world.met == "away":
            raise OSError("the server is away")
        self.version = world.version
        return world.record

    async def create(self, record: LeaderRecord) -> None:
        """Make the record."""
        await self._write(record, AlreadyExists if self.world.record else None)

    async def update(self, record: LeaderRecord) -> None:
        """Replace the record."""
        await self._write(record, None)

    async def _write(self, record: LeaderRecord, error: type[Exception] | None) -> None:
        world, met = self.world, self.world.met
        world.met = ""
        if met in ("refused", "away"):
            raise OSError("the server is away")
        if met == "slow":
            world.now += 1
        if met.isdigit():
            await world.electors[int(met)]._try()
        if error or self.version != world.version:
            raise _CONFLICT
        world.record = record
        world.version += 1
        self.version = world.version
        if met == "lost":
            raise OSError("the answer was lost")


_CONFLICT = Conflict("it has changed")


_FIELDS = ("_observed", "_observed_at", "term", "_reported", "_keep", "_given_up")
"""All that an elector remembers."""


class Callbacks:
    """Nothing is to be called."""

    def started_leading(self) -> None:
        """Leave it."""

    def stopped_leading(self) -> None:
        """Leave it."""

    def new_leader(self, identity: str) -> None:
        """Leave it."""


class Election(Model):
    """Candidates, and the lock they compete for. Times are seconds; what is older than a lease is as old as one."""

    def __init__(self, candidates: int) -> None:
        self.now = 0
        self.version = 0
        self.record: LeaderRecord | None = None
        self.met = ""
        self.electors: list[LeaderElector] = []
        self.locks: list[Lock] = []
        for number in range(candidates):
            self.locks.append(Lock(self))
            self.electors.append(self._elector(number))

    def _elector(self, number: int) -> LeaderElector:
        return LeaderElector(
            self.locks[number],
            f"c{number}",
            _OPTIONS,
            Callbacks(),
            _QUIET,
            clock=lambda: float(self.now),
            now=lambda: _START + timedelta(seconds=self.now, microseconds=self.version),
            jitter=lambda: 0.0,
        )

    def copy(self) -> Self:
        """Return a copy; what an elector remembers is immutable."""
        made = type(self)(len(self.electors))
        made.now, made.version, made.record = self.now, self.version, self.record
        for old, new in zip(self.electors, made.electors, strict=True):
            for name in _FIELDS:
                setattr(new, name, getattr(old, name))
        for lock, new_lock in zip(self.locks, made.locks, strict=True):
            new_lock.version = lock.version
        return made

    def key(self) -> Hashable:
        """All that decides what comes next: of records only which are equal, of times how long ago."""
        numbers: dict[LeaderRecord | None, int] = {}
        records = [self.record, *(each._observed for each in self.electors)]
        return (
            tuple(
                (
                    numbers.setdefault(each, len(numbers)),
                    each and (each.holder, each.lease_duration),
                )
                for each in records
            ),
            tuple(
                (
                    _age(each, self.now),
                    max(each.term.may_write_until - self.now, -1.0),
                    each._reported,
                    lock.version == self.version,
                )
                for each, lock in zip(self.electors, self.locks, strict=True)
            ),
        )

    def acts(self) -> Iterable[tuple[str, tuple[object, ...], bool]]:
        """Try, restart, release, let time pass."""
        for number, each in enumerate(self.electors):
            others = [str(other) for other in range(len(self.electors)) if other != number]
            for met in (*_MET, *others):
                yield "attempt", (number, met), not met
                if each.is_leader and met != "away":
                    yield "release", (number, met), False
            yield "restart", (number,), False
        yield "tick", (), True

    def attempt(self, number: int, met: str) -> None:
        """Have a candidate try once."""
        before = self.electors[number].term.may_write_until > self.now
        self._run(self.electors[number]._try(), met)
        self._check(None if before else number)

    def _run(self, coroutine: Coroutine[Any, Any, object], met: str) -> None:
        self.met = met
        _LOOP.spend(1.0)
        _LOOP.run_until_complete(coroutine)
        self.met = ""

    def _check(self, new: int | None) -> None:
        """Raise Violated where a write that one sent while it led may arrive when another leads."""
        for number, each in enumerate(self.electors):
            leads = new is not None and self.electors[new].term.may_write_until > self.now
            if number != new and leads and each.term.may_write_until + _UNDER_WAY > self.now:
                raise Violated(f"c{new} leads, and writes of c{number} may be under way")

    def release(self, number: int, met: str) -> None:
        """Have a leader end in order, and start again."""
        self._run(self.electors[number]._release(), met)
        self.restart(number)

    def restart(self, number: int) -> None:
        """Have a candidate begin anew, under the same name."""
        self.locks[number] = Lock(self)
        self.electors[number] = self._elector(number)

    def tick(self) -> None:
        """Let a second pass."""
        self.now += 1

    def is_calm(self) -> bool:
        """Whether one leads."""
        leading = [each.identity for each in self.electors if each.term.may_write_until > self.now]
        if len(leading) > 1:
            raise Violated(f"{leading} lead at once")
        if leading and (self.record is None or self.record.holder != leading[0]):
            raise Violated(f"{leading} leads, and the lock is of {self.record}")
        return bool(leading)


def _age(elector: LeaderElector, now: int) -> float:
    """Return how long ago what it observed was observed, as far as that counts."""
    seen = elector._observed
    return 0.0 if seen is None else min(now - elector._observed_at, seen.lease_duration)


def _drop(*_: object) -> NoReturn:
    raise structlog.DropEvent


_QUIET = structlog.wrap_logger(None, processors=[_drop])


def election_world(*, small: bool = False) -> ModelScope[Election]:
    """Return the world of an election, of two candidates or three."""
    return ModelScope("election", Election(2 if small else 3))
