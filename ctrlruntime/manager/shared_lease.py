"""A Lease that leaders of different Leases hold together: a manager that competes for it alone leads beside none of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from ctrlruntime.client.errors import AlreadyExists, Conflict
from ctrlruntime.clock import utc_now
from ctrlruntime.manager.election import ElectionOptions
from ctrlruntime.manager.lease import LeaderLock, LeaderRecord

SHARED_HOLDER: Final = "shared"
"""The identity in such a Lease, the same of all who hold it, unless they have one of their own; that of members of slots ends with their group."""
_TRIES: Final = 5


class LeaseHeld(RuntimeError):
    """Another manager, which leads alone, holds the Lease that is to be shared."""


class SharingLock:
    """A candidate's lock that is written only while the shared Lease is held as well.

    The shared Lease lasts for two lease durations and is renewed after one. So whoever renews its own Lease
    holds the shared one for as long as its own. It is never released, as others may hold it; it expires.
    """

    def __init__(
        self,
        own: LeaderLock,
        shared: LeaderLock,
        options: ElectionOptions,
        clock: Callable[[], float],
        now: Callable[[], datetime] = utc_now,
        *,
        holder: str = SHARED_HOLDER,
    ) -> None:
        """``holder``: the identity in the shared Lease. Those of other identities exclude each other."""
        self._own = own
        self._shared = shared
        self._duration = options.lease_duration
        self._clock = clock
        self._now = now
        self._holder = holder
        self._renew_at = float("-inf")
        self._observed: LeaderRecord | None = None
        self._observed_at = 0.0

    def __str__(self) -> str:
        return str(self._own)

    async def get(self) -> LeaderRecord | None:
        return await self._own.get()

    async def create(self, record: LeaderRecord) -> None:
        """Raise LeaseHeld, and what the own lock raises."""
        await self._hold()
        await self._own.create(record)

    async def update(self, record: LeaderRecord) -> None:
        """Raise LeaseHeld, and what the own lock raises. A release does not need the shared Lease."""
        if record.holder:
            await self._hold()
        await self._own.update(record)

    async def _hold(self) -> None:
        """Renew the shared Lease where it is old. Raises LeaseHeld; Conflict after some attempts."""
        if self._clock() < self._renew_at:
            return
        for _ in range(_TRIES):
            started = self._clock()
            try:
                await self._write(await self._shared.get())
            except (AlreadyExists, Conflict):
                continue  # another who shares it was faster
            self._renew_at = started + self._duration
            return
        raise Conflict(f"{self._shared} is written by others all the time")

    async def _write(self, current: LeaderRecord | None) -> None:
        now = self._now()
        record = LeaderRecord(
            holder=self._holder,
            lease_duration=math.ceil(2 * self._duration),
            acquire_time=now,
            renew_time=now,
        )
        if current is None:
            await self._shared.create(record)
            return
        if current.holder == self._holder:
            record = replace(
                record, acquire_time=current.acquire_time, transitions=current.transitions
            )
        else:
            self._check_free(current)
            record = replace(record, transitions=current.transitions + 1)
        await self._shared.update(record)

    def _check_free(self, current: LeaderRecord) -> None:
        """Raise LeaseHeld for a Lease that was renewed within its duration, by the time it was seen to change."""
        if current != self._observed:
            self._observed, self._observed_at = current, self._clock()
        if current.holder and self._observed_at + current.lease_duration > self._clock():
            raise LeaseHeld(
                f"{self._shared} is held by {current.holder}, which does not share it with this candidate: it leads once "
                "that one has ended"
            )
