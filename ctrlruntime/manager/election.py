"""Leader election: client-go's algorithm over any :class:`LeaderLock`.

A candidate never compares its clock with another's. It notes on its own clock when it saw the record
change, and takes over when the record has stayed the same for the duration it names. Where the lock
tells of changes, candidates hear of a release at once and act when the lease runs out; they ask all
the same, as often as client-go's do.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, Protocol

from structlog.typing import FilteringBoundLogger

from ctrlruntime.client.errors import Conflict
from ctrlruntime.clock import draw, new_uid, utc_now
from ctrlruntime.manager.lease import LeaderLock, LeaderRecord, ServerRestored

JITTER = 1.2
NEVER = float("-inf")

Changes = Callable[[], AsyncGenerator[LeaderRecord | None, None]]
"""What happens to the record, as it happens, newer than what was read before; None: it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionOptions:
    """Times in seconds; the defaults are client-go's."""

    lease_duration: float = 15.0
    """How long other candidates wait after the last renewal they saw."""
    renew_deadline: float = 10.0
    """How long the leader tries to renew before it gives up, and after that writes no more."""
    retry_period: float = 2.0
    """Pause between tries; candidates add up to 120 % at random.

    A leader may write for ``renew_deadline + retry_period`` after the last renewal that succeeded, but
    never for longer than ``lease_duration``; what is left of that is for requests on their way.
    """
    release_on_exit: bool = True
    """Whether an orderly stop releases the lease at once. controller-runtime's default is not."""

    def __post_init__(self) -> None:
        for name in ("lease_duration", "renew_deadline", "retry_period"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than 0")
        if self.lease_duration < 1:
            raise ValueError("lease_duration must be at least one second")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError(
                f"lease_duration ({self.lease_duration:g} s) must be greater than renew_deadline "
                f"({self.renew_deadline:g} s)"
            )
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError(
                f"renew_deadline ({self.renew_deadline:g} s) must be greater than {JITTER} x "
                f"retry_period ({self.retry_period:g} s)"
            )


class Term(NamedTuple):
    """How long this candidate holds the lease, by its own clock; ``NEVER`` while it does not.

    Replaced as a whole, so that another thread may read it at any time.
    """

    may_write_until: float = NEVER
    """When it gives up, unless a renewal succeeds before."""
    expires: float = NEVER
    """When another may take over, unless a renewal succeeds before."""


class ElectionCallbacks(Protocol):
    """What happens on changes of leadership. All are synchronous and quick."""

    def started_leading(self) -> None: ...

    def stopped_leading(self) -> None:
        """Handle the end of the lease: called whenever :meth:`LeaderElector.run` ends, also if it never led."""

    def new_leader(self, identity: str) -> None:
        """Handle a new leader: called once for each change of the holder that is seen, including to this candidate."""


class ElectionMetrics(Protocol):
    """What a LeaderElector measures."""

    def leading(self, leading: bool) -> None: ...

    def slow_path(self) -> None: ...


def default_identity() -> str:
    """``<hostname>_<uuid>``."""
    return f"{socket.gethostname()}_{new_uid()}"


class LeaderElector:
    """One candidate. ``clock`` is monotonic and local; ``now`` only fills in the record's times."""

    def __init__(
        self,
        lock: LeaderLock,
        identity: str,
        options: ElectionOptions,
        callbacks: ElectionCallbacks,
        logger: FilteringBoundLogger,
        *,
        metrics: ElectionMetrics | None = None,
        changes: Changes | None = None,
        clock: Callable[[], float] | None = None,
        now: Callable[[], datetime] = utc_now,
        jitter: Callable[[], float] = draw,
    ) -> None:
        if not identity:
            raise ValueError("a candidate needs an identity")
        self.identity = identity
        self.options = options
        self.term = Term()
        self._lock = lock
        self._changes = changes
        self._callbacks = callbacks
        self._logger = logger.bind(identity=identity, lock=str(lock))
        self._metrics = metrics
        self._clock = clock if clock is not None else _loop_time
        self._now = now
        self._jitter = jitter
        self._request_timeout = max(1.0, options.renew_deadline / 2)
        self._observed: LeaderRecord | None = None
        self._observed_at = 0.0
        self._reported = ""
        self._keep = False
        self._given_up = False
        self._wake = asyncio.Event()

    @property
    def is_leader(self) -> bool:
        """Whether the last record seen names this candidate."""
        return self._observed is not None and self._observed.holder == self.identity

    @property
    def leader(self) -> str:
        """Identity of the leader last seen; empty if none."""
        return self._observed.holder if self._observed is not None else ""

    async def run(self) -> None:
        """Wait for the lease, then keep it. Returns when it is lost; runs until cancelled else. Raises ServerRestored.

        Cancelled while leading it releases the lease, if the options say so: by then everything
        that needs leadership must have ended.
        """
        if self._metrics is not None:
            self._metrics.leading(False)
        try:
            await self._acquire()
            self._logger.info("Became leader")
            if self._metrics is not None:
                self._metrics.leading(True)
            self._callbacks.started_leading()
            await self._renew()
            self._logger.error("Lost the lease")
        except asyncio.CancelledError:
            if self.is_leader and self.options.release_on_exit and not self._keep:
                await self._release()
            raise
        finally:
            self.term = self.term._replace(may_write_until=NEVER)
            if self._metrics is not None:
                self._metrics.leading(False)
            self._callbacks.stopped_leading()

    def keep(self) -> None:
        """Keep the lease at the end: something that needs it is still running."""
        self._keep = True

    def give_up(self) -> None:
        """Write no more from now on: no renewal prolongs the term. Cancelling :meth:`run` then releases the lease."""
        self._given_up = True
        self.term = Term()

    def hurry(self) -> None:
        """Try again at once, or renew at once, instead of after the pause."""
        self._wake.set()

    def check(self, timeout: float = 20.0) -> None:
        """Raise RuntimeError, as a health check, when this leader's renewal is overdue by ``timeout``."""
        overdue = self._clock() - self._observed_at - self.options.lease_duration
        if self.is_leader and overdue > timeout:
            raise RuntimeError(f"the lease expired {overdue:.0f} s ago and was not renewed")

    async def _acquire(self) -> None:
        watching = asyncio.create_task(self._watch(), name="watch of the lease")
        try:
            while not await self._try():
                await self._rest(self._pause())
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _pause(self) -> float:
        """Seconds to the next try: a poll, or sooner if the lease runs out before."""
        poll = self.options.retry_period * (1 + JITTER * self._jitter())
        if self._observed is None or not self._observed.holder:
            return poll
        left = self._observed_at + self._observed.lease_duration - self._clock()
        if left <= 0:
            return poll
        return min(poll, left + 0.1 * self.options.retry_period * self._jitter())

    async def _watch(self) -> None:
        """Note changes when they happen, and wake the candidate when the lease is free."""
        if self._changes is None:
            return
        while True:
            try:
                async with contextlib.aclosing(self._changes()) as changes:
                    async for record in changes:
                        self._note(record)
            except Exception as error:  # noqa: BLE001 - polls go on without it
                self._logger.debug("The watch of the lease ended", error=repr(error))
            await asyncio.sleep(self.options.retry_period)

    def _note(self, record: LeaderRecord | None) -> None:
        if record is None or not record.holder:
            self._wake.set()
        if record is not None and record != self._observed and record.holder != self.identity:
            self._observe(record, self._clock())

    async def _renew(self) -> None:
        """Return when the lease was not renewed within the deadline, or another holds it.

        After standing still for longer than that there is one more try: no other candidate may have come.
        """
        while True:
            await self._rest(self.options.retry_period)
            left = self.term.may_write_until - self._clock()
            try:
                async with asyncio.timeout(max(left, self._request_timeout)):
                    while not await self._try():
                        if not self.is_leader:
                            return
                        await asyncio.sleep(self.options.retry_period)
            except TimeoutError:
                return

    async def _try(self) -> bool:
        """One attempt to acquire or renew; False when it did not work out, whatever the cause.

        Raises ServerRestored, which ends leader and candidates: their caches may lack changes for ever.
        """
        try:
            async with asyncio.timeout(self._request_timeout):
                if self.is_leader and self._is_valid():
                    try:
                        await self._write(self._record(self._observed))
                    except Conflict as error:
                        self._logger.warning("Renewal met a conflict", error=str(error))
                        if self._metrics is not None:
                            self._metrics.slow_path()
                    else:
                        return True
                return await self._acquire_or_renew()
        except ServerRestored:
            raise
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the deadline decides
            self._logger.warning("Could not acquire or renew the lease", error=repr(error))
            return False

    async def _acquire_or_renew(self) -> bool:
        current = await self._lock.get()
        if current is None:
            record = self._record(None)
            started = self._clock()
            await self._lock.create(record)
            self._hold(record, started)
            return True
        if current != self._observed:
            self._observe(current, self._clock())
        if current.holder and not self.is_leader and self._is_valid():
            return False
        await self._write(self._record(current))
        return True

    async def _write(self, record: LeaderRecord) -> None:
        started = self._clock()
        await self._lock.update(record)
        self._hold(record, started)

    async def _release(self) -> None:
        """Empty the holder, unless another has the lease; conflicts are tried again."""
        self.term = Term()
        try:
            async with asyncio.timeout(self.options.renew_deadline):
                while self.is_leader and self._observed is not None:
                    released = replace(
                        self._observed, holder="", lease_duration=1, renew_time=self._now()
                    )
                    try:
                        await self._write(released)
                    except Conflict:
                        current = await self._lock.get()
                        if current is None:
                            return
                        self._observe(current, self._clock())
            self._logger.info("Released the lease")
        except Exception as error:  # noqa: BLE001 - it will expire
            self._logger.warning("Could not release the lease", error=repr(error))

    def _record(self, current: LeaderRecord | None) -> LeaderRecord:
        now = self._now()
        duration = math.ceil(self.options.lease_duration)
        record = LeaderRecord(
            holder=self.identity, lease_duration=duration, acquire_time=now, renew_time=now
        )
        if current is None:
            return record
        if current.holder == self.identity:
            return replace(
                record, acquire_time=current.acquire_time, transitions=current.transitions
            )
        return replace(record, transitions=current.transitions + 1)

    def _is_valid(self) -> bool:
        if self._observed is None:
            return False
        return self._observed_at + self._observed.lease_duration > self._clock()

    def _observe(self, record: LeaderRecord, at: float) -> None:
        self._observed = record
        self._observed_at = at
        if record.holder != self.identity:
            self.term = Term()
        if record.holder != self._reported:
            self._reported = record.holder
            if record.holder:
                self._callbacks.new_leader(record.holder)

    def _hold(self, record: LeaderRecord, started: float) -> None:
        """After a write that succeeded. Others may have seen it as early as it began.

        An own record that was only read (its answer was lost) prolongs nothing: it may be old.
        """
        self._observe(record, started)
        if record.holder == self.identity and not self._given_up:
            options = self.options
            hold = min(options.renew_deadline + options.retry_period, options.lease_duration)
            self.term = Term(started + hold, started + options.lease_duration)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
