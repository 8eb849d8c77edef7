"""Begins a Job when its time has come, watches it, and cleans up after it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from apis.cosmos import JobOutcome, JobRecord, StatefulJob, StatefulJobStatus
from ctrlruntime.api import set_condition
from ctrlruntime.cache import Entry, Store
from ctrlruntime.client.errors import APIError
from ctrlruntime.controller import Result, TransientError, is_transient
from ctrlruntime.controller.orphan_requests import OrphanRequests
from ctrlruntime.events import EventRecorder
from ctrlruntime.gate import Cause
from ctrlruntime.lifecycle import Lifecycle, ObjectPass
from ctrlruntime.lifecycle.departure import delete_owned, release_owned
from ctrlruntime.lifecycle.owner_index import OF_OWNER
from ctrlruntime.lifecycle.reconciler import lose_remote, on_remote
from ctrlruntime.lifecycle.remote import ClusterTrouble, Remote
from ctrlruntime.resources import OWNER, Action, Control, Desired, Owner
from ctrlruntime.schedule import BadSchedule
from internal.cosmos.datasource import CLAIM, DataSources, FoundSource, SourceMissing, from_snapshot
from internal.cosmos.labels import FINALIZER
from internal.cosmos.snapshots.conditions import INVALID, crds_available
from internal.cosmos.statefuljob.history import (
    SLOW,
    begin,
    expires,
    is_open,
    observe,
    opened,
    timing,
)
from internal.cosmos.statefuljob.job_builder import (
    JOB,
    VOLUME,
    build_claim,
    build_job,
    mounts_copy,
    recorded_claim,
    run_name,
)
from internal.cosmos.volumesnapshots import is_ready

CLEANING: Final = 3.0
"""Seconds until objects of the hub are looked at again that are being deleted."""
LOOKS: Final = 6
"""Most rounds of writing and doing in one go."""
LONGEST: Final = timedelta(hours=1)
"""The longest wait for a time: clocks are set, machines sleep."""


class JobRefused(Exception):
    """A Job that was begun cannot be created; the message gives the reason."""


class HubRefused(TransientError):
    """The hub does not take objects for now; the message has what to do."""

    def __init__(self, trouble: ClusterTrouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


@dataclass(slots=True)
class _Pass:
    """What one look comes to."""

    this: ObjectPass
    job: StatefulJob
    owner: Owner
    now: datetime
    trouble: str = ""
    """Why nothing is begun although it is time, or cannot be at all."""
    is_invalid: bool = False
    """Whether that is a field of the spec."""
    hub_trouble: ClusterTrouble | None = None
    """Why the hub does not take objects."""

    @property
    def entry(self) -> Entry:
        """The object as the cache has it."""
        return self.this.entry

    @property
    def status(self) -> StatefulJobStatus:
        """Its status, as far as it has come."""
        return self.job.status


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReads:
    """What passes read. Nothing but `is_gone` makes a request."""

    jobs: Store
    """Own Jobs."""
    claims: Store
    """Own claims."""
    snapshots: Store
    """VolumeSnapshots."""
    sources: DataSources
    """Finds snapshots."""
    is_served: Callable[[], bool]
    """Whether the cluster serves VolumeSnapshots."""
    is_gone: Callable[[str, str], Awaitable[bool]]
    """Whether the server itself has no Job of a namespace and name: the cache has those with our label alone."""


@dataclass(slots=True, kw_only=True)
class StatefulJobReconciler:
    """Works on one StatefulJob at a time."""

    reads: JobReads
    control: Control
    """Writes Jobs and claims."""
    recorder: EventRecorder
    """Events."""
    clock: Callable[[], datetime]
    """The time that schedules go by."""
    orphan_requests: OrphanRequests
    """Which are deleted with `--cascade=orphan`, on a hub."""
    remote: Remote | None = None
    """The hub that Jobs and claims are on; None: they are in the cluster of their owners."""

    @property
    def lifecycle(self) -> Lifecycle[StatefulJob]:
        """Return the life of StatefulJobs. What one has goes with it as its own; on the hub its finalizer sees to that."""
        on_hub = self.remote is not None
        return Lifecycle(
            StatefulJob,
            reconcile=self.reconcile,
            unreadable=self.refuse,
            finalizer=FINALIZER if on_hub else "",
            tear_down=self.remove if on_hub else None,
            until_deleted=not on_hub,
            remote=on_remote(self.remote, lost=_lose_hub),
        )

    async def reconcile(self, job: StatefulJob, this: ObjectPass) -> Result | None:
        """Go as far as possible without waiting."""
        moments: list[datetime] = []
        for _ in range(LOOKS):
            again, moments = await self._look(job, this)
            if not again or not this.reread():
                break
        if not moments:
            return None
        now = self.clock()
        wait = min(*moments, now + LONGEST) - now
        return Result(requeue_after=max(wait.total_seconds(), 0.01))

    async def refuse(self, job: StatefulJob, this: ObjectPass) -> None:
        """Report a spec that cannot be read: nothing is started for it."""
        job.status.status, job.status.next_at = this.problem, None
        this.set_ready(job, False, INVALID, this.problem)

    async def remove(self, _job: StatefulJob, this: ObjectPass) -> Result | None:
        """Delete Jobs and claims on the hub, or release them, until none is left. Jobs go first."""
        owner, control, left = Owner.of(this.entry), self.control, 0
        owned = {
            mapping: store.by_index(OF_OWNER, owner_value(this.entry))
            for mapping, store in ((JOB, self.reads.jobs), (CLAIM, self.reads.claims))
        }
        for mapping, entries in owned.items():
            if self.orphan_requests.has(this.entry):
                await release_owned(control, mapping, entries, owner)
            else:
                left += await delete_owned(control, mapping, entries, owner)
        return Result(requeue_after=CLEANING) if left else None

    async def _look(self, job: StatefulJob, this: ObjectPass) -> tuple[bool, list[datetime]]:
        """One round: whether another is worth it at once, and what is waited for."""
        now = self.clock().replace(microsecond=0)
        found = _Pass(this, job, Owner.of(this.entry), now)
        found.status.created_at = found.status.created_at or now
        for record in found.status.job_history:
            await self._keep_metadata(found, record)
            job_there, claim = (
                store.get(record.name, namespace=found.owner.namespace)
                for store in (self.reads.jobs, self.reads.claims)
            )
            observe(record, job_there, now, claim)
        begun = self._begin(found)
        await self._record(found)
        under_way = opened(found.status)
        if under_way is not None and under_way.outcome is JobOutcome.STARTING:
            return await self._start(found, under_way) or begun, []
        await self._clean_up(found)
        return begun, self._moments(found)

    async def _keep_metadata(self, found: _Pass, record: JobRecord) -> None:
        """Restore what was changed by hand of the labels, owner and records of a Job and its claim.

        One without the labels that the cache selects by costs a request; nothing is created.
        """
        end = expires(record, found.job.spec.job_template.ttl_seconds_after_finished)
        if record.outcome is JobOutcome.STARTING or (end is not None and end <= found.now):
            return
        claim = self.reads.claims.get(record.name, namespace=found.entry.namespace)
        for desired in (recorded_claim(found.job, record, claim), build_job(found.job, record)):
            there = self.control.look(desired)
            if there is None:
                outcome = await self.control.reclaim(desired, found.owner)
            elif there.deletion_timestamp is None:
                outcome = await self.control.ensure(desired, found.owner)
            else:
                continue
            if outcome is not None and outcome.action is Action.CONFLICT:
                text = f"{desired.key} is left as it is: {outcome.conflict}; restore its annotation {OWNER}"
                self.recorder.event(found.entry, "Warning", "Error", "Job", text)

    # -- beginning --------------------------------------------------------------------------------

    def _begin(self, found: _Pass) -> bool:
        """Record a Job whose time has come, before anything is created for it."""
        status, spec = found.status, found.job.spec
        try:
            times = timing(spec, status, found.now)
        except BadSchedule as error:
            status.next_at, found.trouble, found.is_invalid = None, str(error), True
            return False
        status.next_at = None if spec.suspend else times.next
        if spec.suspend or times.due is None or opened(status) is not None:
            return False
        try:
            source = self._source(found, "")
        except (SourceMissing, ValueError) as error:
            found.trouble = str(error)
            return False
        name = run_name(found.entry.name, times.due)
        begin(
            status,
            JobRecord(
                name=name,
                scheduled_at=times.due,
                started_at=found.now,
                snapshot=source.name,
                outcome=JobOutcome.STARTING,
            ),
        )
        return True

    def _source(self, found: _Pass, chosen: str) -> FoundSource:
        """Return the snapshot that was chosen, as long as it can be used; else the newest.

        Raises SourceMissing, and ValueError for one that does not tell its size.
        """
        namespace = found.entry.namespace
        entry = self.reads.snapshots.get(chosen, namespace=namespace) if chosen else None
        if entry is not None and is_ready(entry):
            source = from_snapshot(entry)
        else:
            source = self.reads.sources.newest(found.job.spec.selector, namespace)
        if source.size is None:
            raise ValueError(
                f"VolumeSnapshot {source.name} has no restoreSize, so it is unknown how large a "
                "claim it needs"
            )
        return source

    async def _start(self, found: _Pass, record: JobRecord) -> bool:
        """Make the claim, then the Job. Whether both are there."""
        namespace = found.entry.namespace
        try:
            if self.reads.claims.get(record.name, namespace=namespace) is None:
                source = self._source(found, record.snapshot)
                if source.name != record.snapshot:
                    record.snapshot = source.name
                    await self._record(found)
                await self._ensure(build_claim(found.job, record, source), found.owner)
            await self._ensure(build_job(found.job, record), found.owner)
        except (SourceMissing, ValueError) as error:
            found.trouble = str(error)
            await self._record(found)
            return False
        except HubRefused as error:
            found.trouble, found.hub_trouble = str(error), error.trouble
            await self._record(found)
            raise
        except JobRefused as error:
            record.outcome, record.finished_at = JobOutcome.FAILED, found.now
            record.message = str(error)
            await self._record(found)
        return True

    async def _ensure(self, desired: Desired, owner: Owner) -> None:
        try:
            outcome = await self.control.ensure(desired, owner)
        except APIError as error:
            remote = self.remote
            trouble = None if remote is None else remote.explain(error, owner.namespace)
            if trouble is not None:
                raise HubRefused(trouble) from error
            if is_transient(error):
                raise
            raise JobRefused(f"the server refuses {desired.key}: {error}") from error
        if outcome.action is Action.CONFLICT:
            raise JobRefused(f"{desired.key}: {outcome.conflict}")
        if outcome.action is Action.TERMINATING:
            raise JobRefused(f"{desired.key} is being deleted")

    # -- ending -----------------------------------------------------------------------------------

    async def _clean_up(self, found: _Pass) -> None:
        """After its time a Job that has ended goes, and then its claim, and whatever else is left over."""
        namespace, ttl = (
            found.entry.namespace,
            found.job.spec.job_template.ttl_seconds_after_finished,
        )
        known = {record.name: record for record in found.status.job_history}
        for entry in self._mine(self.reads.jobs, found):
            record = known.get(entry.name)
            end = None if record is None else expires(record, ttl)
            if end is not None and end <= found.now:  # of what is not known the server sees to
                await self.control.remove(JOB, entry, found.owner, Cause.RETENTION)
        for entry in self._mine(self.reads.claims, found):
            record = known.get(entry.name)
            ended = record is None or not is_open(record)
            if not ended or self.reads.jobs.get(entry.name, namespace=namespace) is not None:
                continue
            if await self.reads.is_gone(namespace, entry.name):
                await self.control.remove(CLAIM, entry, found.owner, Cause.RETENTION)

    def _mine(self, store: Store, found: _Pass) -> list[Entry]:
        return [
            entry
            for entry in store.by_index(OF_OWNER, owner_value(found.entry))
            if entry.deletion_timestamp is None and self.control.holds(entry, found.owner)
        ]

    def _moments(self, found: _Pass) -> list[datetime]:
        """When it is to be looked at again though nothing changes."""
        ttl = found.job.spec.job_template.ttl_seconds_after_finished
        ends = [
            expires(record, ttl)
            for record in found.status.job_history
            if self.reads.jobs.get(record.name, namespace=found.entry.namespace) is not None
        ]
        under_way = opened(found.status)
        next_at = found.status.next_at if under_way is None else under_way.started_at + SLOW
        return [each for each in (*ends, next_at) if each is not None and each > found.now]

    # -- telling ----------------------------------------------------------------------------------

    async def _record(self, found: _Pass) -> None:
        """Write the status down, if it changed."""
        status, this, generation = found.status, found.this, found.entry.generation
        status.status = self._words(found)
        served = self.reads.is_served()
        set_condition(status.conditions, crds_available(served, generation), found.now)
        last = status.job_history[0] if status.job_history else None
        failed = last is not None and last.outcome in (JobOutcome.FAILED, JobOutcome.LOST)
        message = found.trouble or self._of_last(found, last)
        reason = _reason(found, failed=failed, waits=bool(message))
        this.set_ready(
            found.job, not message, reason, message or "Jobs are begun when they are due"
        )
        this.set_remote(found.job, *([] if found.hub_trouble is None else [found.hub_trouble]))
        self._note_troubles(found, this.before)
        await this.record(found.job)

    def _of_last(self, found: _Pass, last: JobRecord | None) -> str:
        """Return what is wrong with the last Job; empty if nothing is."""
        if last is None or not is_open(last) or not last.message:
            return "" if last is None else last.message
        look = f"kubectl -n {found.entry.namespace} describe job,pvc,pods"
        return f"Job {last.name} has not ended: {last.message}; see `{look}`"

    def _words(self, found: _Pass) -> str:
        record = opened(found.status)
        if found.trouble:
            return f"Cannot start: {found.trouble}"
        if record is not None:
            unused = (
                "" if mounts_copy(found.job) else f" None of its containers mounts volume {VOLUME}."
            )
            if record.message:
                return f"{self._of_last(found, record)}."
            return f"Job {record.name} runs on a copy of {record.snapshot}.{unused}"
        return "Suspended." if found.job.spec.suspend else "Waiting for the next time."

    def _note_troubles(self, found: _Pass, before: StatefulJobStatus) -> None:
        """Have events of troubles, once each."""
        if found.trouble and before.status != found.status.status:
            found.this.event("Warning", "Error", "Job", found.trouble)
        known = {record.name: record.outcome for record in before.job_history}
        for record in found.status.job_history:
            bad = record.outcome in (JobOutcome.FAILED, JobOutcome.LOST)
            if bad and known.get(record.name) is not record.outcome:
                text = f"Job {record.name}: {record.outcome}: {record.message}"
                found.this.event("Warning", "Error", "Job", text)


def _reason(found: _Pass, *, failed: bool, waits: bool) -> str:
    """Reason of Ready."""
    if found.is_invalid:
        return INVALID
    if failed and not found.trouble:
        return "JobFailed"
    return "Waiting" if waits else "Scheduled"


def owner_value(entry: Entry) -> str:
    """Return what the index of Jobs and claims has of a StatefulJob."""
    return f"{StatefulJob.gvk().kind}/{entry.namespace}/{entry.name}"


def _lose_hub(job: StatefulJob, this: ObjectPass, trouble: ClusterTrouble) -> None:
    job.status.status = trouble.message
    lose_remote(job, this, trouble)
