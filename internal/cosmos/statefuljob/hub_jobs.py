"""StatefulJobs of a data plane, whose Jobs and claims are on the hub: what they need before and after all else."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from apis.cosmos import StatefulJob, StatefulJobStatus
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.orphan_requests import OrphanRequests
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.lifecycle.departure import delete_owned, release_owned
from ctrlruntime.lifecycle.remote import ClusterTrouble, Remote
from ctrlruntime.queue import Request
from ctrlruntime.resources import Owner
from internal.cosmos.datasource import CLAIM
from internal.cosmos.labels import FINALIZER
from internal.cosmos.reading import read_status
from internal.cosmos.snapshots.conditions import lose_hub
from internal.cosmos.statefuljob.job_builder import JOB
from internal.cosmos.statefuljob.reconciler import StatefulJobReconciler, owner_value

CLEANING: Final = 3.0
"""Seconds until objects of the hub are looked at again that are being deleted, or were not read yet."""
HUB_RETRY: Final = 30.0
"""Seconds until a hub that does not answer is looked at again; that it answers wakes all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubStatefulJobs:
    """A reconciler around that of StatefulJobs: it keeps a finalizer, and decides nothing without the hub."""

    jobs: StatefulJobReconciler
    hub: Remote
    orphan_requests: OrphanRequests
    """Which are deleted with `--cascade=orphan`."""
    patcher: ObjectPatcher
    clock: Callable[[], datetime]

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors."""
        entry = self.jobs.reads.stateful_jobs.get(request.name, namespace=request.namespace)
        if entry is not None and not self.hub.is_usable():
            return await self._wait_for_hub(entry, self.hub.trouble())
        if entry is not None and entry.deletion_timestamp is not None:
            return await self._finish(entry)
        if entry is not None and FINALIZER not in entry.finalizers:
            await self.patcher.add_finalizer(StatefulJob.mapping(), entry, FINALIZER)
        return await self.jobs.reconcile(request)

    async def _wait_for_hub(self, entry: Entry, trouble: ClusterTrouble | None) -> Result:
        """Report that nothing is decided while Jobs and claims are unknown."""
        if trouble is None:
            return Result(requeue_after=CLEANING)
        before = read_status(entry, StatefulJobStatus)
        after = before.model_copy(deep=True)
        after.observed_generation, after.status = entry.generation, trouble.message
        now = self.clock().replace(microsecond=0)
        lose_hub(after.conditions, entry.generation, trouble, now)
        await self.patcher.write_status(StatefulJob.mapping(), entry, before, after)
        return Result(requeue_after=HUB_RETRY)

    async def _finish(self, entry: Entry) -> Result | None:
        """Let it go once its Jobs and claims are gone, or released."""
        if FINALIZER not in entry.finalizers:
            return None
        if await self._remove_all(entry):
            return Result(requeue_after=CLEANING)
        await self.patcher.remove_finalizer(StatefulJob.mapping(), entry, FINALIZER)
        return None

    async def _remove_all(self, entry: Entry) -> int:
        """Delete Jobs and claims, or release them, and return how many are left. Jobs go first."""
        owner, reads, control = Owner.of(entry), self.jobs.reads, self.jobs.control
        owned = {
            mapping: store.by_index("controller", owner_value(entry))
            for mapping, store in ((JOB, reads.jobs), (CLAIM, reads.claims))
        }
        if self.orphan_requests.has(entry):
            for mapping, entries in owned.items():
                await release_owned(control, mapping, entries, owner)
            return 0
        left = [
            await delete_owned(control, mapping, entries, owner)
            for mapping, entries in owned.items()
        ]
        return sum(left)
