"""Leader election: client-go's algorithm over any :class:`LeaderLock`.

A candidate never compares its clock with another's. It notes on its own clock when it saw the record
change, and takes over when the record has stayed the same for the duration it names.
"""

from __future__ import annotations

import asyncio
import math
import random
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from ctrlruntime.client.errors import Conflict
from ctrlruntime.manager.lease import LeaderLock, LeaderRecord

JITTER = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionOptions:
    """Times in seconds; the defaults are client-go's."""

    lease_duration: float = 15.0
    """How long other candidates wait after the last renewal they saw."""
    renew_deadline: float = 10.0
    """How long the leader tries to renew before it gives up."""
    retry_period: float = 2.0
    """Pause between tries; candidates add up to 120 % at random."""
    release_on_exit: bool = True
    """Whether an orderly stop hands the lease over at once. controller-runtime's default is not."""

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


class ElectionCallbacks(Protocol):
    """What happens on changes of leadership. All are synchronous and quick."""

    def started_leading(self) -> None: ...

    def stopped_leading(self) -> None:
        """Called whenever :meth:`LeaderElector.run` ends, also if it never led."""

    def new_leader(self, identity: str) -> None:
        """Called once for each change of the holder that is seen, including to this candidate."""


class ElectionMetrics(Protocol):
    def leading(self, leading: bool) -> None: ...

    def slow_path(self) -> None: ...


def default_identity() -> str:
    """``<hostname>_<uuid>``."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


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
        clock: Callable[[], float] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not identity:
            raise ValueError("a candidate needs an identity")
        self.identity = identity
        self.options = options
        self._lock = lock
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

    @property
    def is_leader(self) -> bool:
        """Whether the last record seen names this candidate."""
        return self._observed is not None and self._observed.holder == self.identity

    @property
    def leader(self) -> str:
        """Identity of the leader last seen; empty if none."""
        return self._observed.holder if self._observed is not None else ""

    async def run(self) -> None:
        """Waits for the lease, then keeps it. Returns when it is lost; runs until cancelled else.

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
            if self._metrics is not None:
                self._metrics.leading(False)
            self._callbacks.stopped_leading()

    def keep(self) -> None:
        """The lease is not released at the end: something that needs it is still running."""
        self._keep = True

    @property
    def has_lapsed(self) -> bool:
        """Whether the lease may be another's by now: it was not renewed in time, or is seen to be."""
        return not (self.is_leader and self._is_valid())

    def check(self, timeout: float = 20.0) -> None:
        """A health check: raises RuntimeError when this leader's renewal is overdue by ``timeout``."""
        overdue = self._clock() - self._observed_at - self.options.lease_duration
        if self.is_leader and overdue > timeout:
            raise RuntimeError(f"the lease expired {overdue:.0f} s ago and was not renewed")

    async def _acquire(self) -> None:
        while not await self._try():  # noqa: ASYNC110 - nobody tells when a lease expires
            await asyncio.sleep(self.options.retry_period * (1 + JITTER * self._jitter()))

    async def _renew(self) -> None:
        """Returns when the lease was not renewed within the deadline, or another holds it."""
        while True:
            await asyncio.sleep(self.options.retry_period)
            try:
                async with asyncio.timeout(self.options.renew_deadline):
                    while not await self._try():
                        if not self.is_leader:
                            return
                        await asyncio.sleep(self.options.retry_period)
            except TimeoutError:
                return

    async def _try(self) -> bool:
        """One attempt to acquire or renew; False when it did not work out, whatever the cause."""
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
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the deadline decides
            self._logger.warning("Could not acquire or renew the lease", error=repr(error))
            return False

    async def _acquire_or_renew(self) -> bool:
        current = await self._lock.get()
        if current is None:
            record = self._record(None)
            started = self._clock()
            await self._lock.create(record)
            self._observe(record, started)
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
        self._observe(record, started)

    async def _release(self) -> None:
        """Empties the holder, unless another has the lease; conflicts are tried again."""
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
        if record.holder != self._reported:
            self._reported = record.holder
            if record.holder:
                self._callbacks.new_leader(record.holder)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
