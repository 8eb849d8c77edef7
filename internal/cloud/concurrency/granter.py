"""The leader's part where several managers share Instances: it grants starts, and takes back what is not made use of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from apis.cloud import TaskStatus, Waiting, WaitingReason
from ctrlruntime.api import Resource
from ctrlruntime.cache.cache import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.queue import Request
from internal.cloud.concurrency.checker import Claim, Denial
from internal.cloud.concurrency.grants import is_requested
from internal.cloud.concurrency.rebuild import LedgerKeeper
from internal.cloud.runs import RunOwner
from internal.cloud.subresource import Subresource
from internal.cloud.taskdriver.inputs import typed
from internal.cloud.taskdriver.record import is_live
from internal.cloud.taskdriver.summary import next_look, refreshed
from internal.cloud.taskdriver.writes import write_status

R = TypeVar("R", bound=Resource[Any, TaskStatus])
UNUSED: Final = 60.0
"""Seconds after which a grant is taken back that its manager made no use of."""
WITHOUT_OWNER: Final = 10.0
"""Seconds until it is looked at again whether a manager works on the slot of an object that has a grant, or waits for one."""
AT_ONCE: Final = 0.01
PRUNED: Final = (
    "the CRD of {kind} is of an older version, without status.waiting.grantedAt, so no start can be granted; "
    "apply the CRDs of this version (config/crd)"
)
_log: FilteringBoundLogger = structlog.get_logger("cloud.grants")


@dataclass(slots=True)
class Granter(Generic[R]):
    """A reconciler of all objects of one kind, in the leader alone. The ledger follows what its cache shows."""

    subresource: Subresource[R]
    keeper: LedgerKeeper
    client: CachedClient
    patcher: ObjectPatcher
    clock: Callable[[], datetime]
    is_left_alone: Callable[[R], bool]
    """Whether the object's instance is out of management: its run is followed by no one, and counts until its deadline."""
    has_owner: Callable[[R], bool]
    """Whether a manager works on the object's slot."""
    wake: Callable[[RunOwner], None]
    """Has this process look at the object, if it is one of its own: it does so by itself for writes of others alone."""
    least: float
    """Seconds between two writes about waiting."""

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors."""
        kind, cache = self.subresource.kind, self.client.cache
        entry = cache.entry(kind, request.name, namespace=request.namespace)
        if entry is None:
            return None  # the keeper follows deletions
        await self.keeper.ready()
        if self._is_older(entry):
            return Result(requeue_after=1.0)
        resource = typed(kind, entry.decode())
        if resource is None:
            return None
        claim, status = self.keeper.claim_of(self.subresource, resource)
        if is_live(status.run):
            return self._running(claim, status, resource)
        waiting = status.waiting
        if waiting is None or not is_requested(waiting):
            self.keeper.ledger.release(claim.owner)
            return None
        if waiting.granted_at is not None:
            return await self._granted(claim, status, resource, waiting.granted_at)
        return await self._grant(claim, resource, waiting)

    def _is_older(self, entry: Entry) -> bool:
        """Whether the cache has less of an object than the ledger was filled with: it could free a place that is held."""
        listed = self.keeper.listed.get(entry.uid, 0)
        if int(entry.resource_version) < listed:
            return True
        self.keeper.listed.pop(entry.uid, None)
        return False

    def _running(self, claim: Claim, status: TaskStatus, resource: R) -> Result | None:
        run, left = status.run, 0.0
        if not self.is_left_alone(resource):
            self.keeper.ledger.hold(claim)
            return None
        if run is not None and run.deadline is not None:
            left = (run.deadline - self.clock()).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        self.keeper.ledger.release(claim.owner)
        return None

    async def _granted(
        self, claim: Claim, status: TaskStatus, resource: R, granted_at: datetime
    ) -> Result | None:
        """Count a grant, and take back one that is not made use of: whichever write comes first, the other meets a conflict."""
        self.keeper.ledger.hold(claim)
        now = self.clock()
        left = UNUSED - abs((now - granted_at).total_seconds())  # a clock ahead keeps no place
        if left > 0 and self.has_owner(resource):
            return Result(requeue_after=min(left, WITHOUT_OWNER))
        again = Waiting(  # of an instance out of management too: a grant that stayed would count, or begin a run uncounted
            reason=WaitingReason.TURN,
            priority=None if status.waiting is None else status.waiting.priority,
            since=now,  # behind those who come when called
        )
        if await self._write(resource, again):
            self.keeper.ledger.forget(claim.owner.uid)
        return Result(requeue_after=AT_ONCE)

    async def _grant(self, claim: Claim, resource: R, waiting: Waiting) -> Result | None:
        if self.is_left_alone(resource):
            self.keeper.ledger.forget(claim.owner.uid)
            return None  # what takes it into management again brings it back
        if not self.has_owner(resource):
            self.keeper.ledger.forget(claim.owner.uid)
            return Result(requeue_after=WITHOUT_OWNER)
        held = self.keeper.ledger.held_by(claim.owner.uid)
        if held is not None and (held.recorded is None or held.recorded.since != waiting.since):
            # Another wait: what was granted began and ended unseen. Without this the next start would count as that one.
            self.keeper.ledger.release(claim.owner)
        verdict, now = self.keeper.ledger.acquire(claim), self.clock()
        if isinstance(verdict, Denial):
            denied = refreshed(waiting, verdict.waiting, now, self.least)
            look = next_look(denied, now, self.least)
            if denied != waiting and not await self._write(resource, denied):
                return Result(requeue_after=AT_ONCE)
            return Result(requeue_after=look if verdict.again is None else min(look, verdict.again))
        # It counts from before the write: one that failed is tried again, or the place freed by what the object is then.
        granted = waiting.model_copy(update={"granted_at": now})
        if not await self._write(resource, granted):
            return Result(requeue_after=AT_ONCE)
        if self._is_pruned(resource):
            return await self._report_pruned(claim, resource, waiting)
        self.wake(claim.owner)
        return Result(requeue_after=WITHOUT_OWNER)

    def _is_pruned(self, resource: R) -> bool:
        """Whether the server took a grant and left it out: the answer is in the cache, at the version that was there before."""
        metadata, kind = resource.metadata, self.subresource.kind
        entry = self.client.cache.entry(kind, metadata.name or "", namespace=metadata.namespace)
        return entry is not None and entry.resource_version == metadata.resource_version

    async def _report_pruned(self, claim: Claim, resource: R, waiting: Waiting) -> Result:
        """Give the place back, and have the object show why it does not start."""
        self.keeper.ledger.retract(claim.owner.uid)
        message = PRUNED.format(kind=self.subresource.kind.gvk().kind)
        if waiting.message != message:
            _log.error("A start cannot be granted", object=claim.owner.name, error=message)
            await self._write(resource, waiting.model_copy(update={"message": message}))
        return Result(requeue_after=WITHOUT_OWNER)

    async def _write(self, resource: R, waiting: Waiting) -> bool:
        after = resource.status.model_copy(update={"waiting": waiting})
        return await write_status(self.patcher, self.client.cache, resource, after)
