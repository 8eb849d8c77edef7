"""The lock of a member's Lease: with what it announces, and for one term alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ctrlruntime.client.client import Client
from ctrlruntime.manager.election import NEVER, ElectionOptions
from ctrlruntime.manager.lease import LeaderRecord, LeaseLock


class TermOver(RuntimeError):
    """The Lease could not be renewed in time: others may have taken this member's slots meanwhile."""


class MemberLock(LeaseLock):
    """A Lease that is not renewed once its term is over, as others need not take it to take the slots.

    A leader may renew its Lease late where no other has come; a member must not: it would write beside the new owners of its
    slots, which never hold its Lease.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        namespace: str,
        labels: Mapping[str, str],
        annotations: Callable[[], Mapping[str, str]],
        election: ElectionOptions,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(client, name, namespace=namespace, labels=labels, annotations=annotations)
        self._hold = min(election.renew_deadline + election.retry_period, election.lease_duration)
        self._clock = clock
        self._until = NEVER

    async def create(self, record: LeaderRecord) -> None:
        """Raise TermOver, and what the client raises."""
        started = self._begin(record)
        await super().create(record)
        self._prolong(record, started)

    async def update(self, record: LeaderRecord) -> None:
        """Raise TermOver, and what the client raises. A release is written whenever it comes."""
        started = self._begin(record)
        await super().update(record)
        self._prolong(record, started)

    def _begin(self, record: LeaderRecord) -> float:
        now = self._clock()
        if record.holder and self._until != NEVER and now > self._until:
            raise TermOver(
                f"{self} was not renewed in time: this process ends, to be started again"
            )
        return now

    def _prolong(self, record: LeaderRecord, started: float) -> None:
        self._begin(record)  # an answer that came after the term is none
        if record.holder:
            self._until = started + self._hold
