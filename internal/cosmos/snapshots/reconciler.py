"""Carries the state machine out: records the status, then carries it out, then reads again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from apis.cosmos import (
    CosmosFullNodeSpec,
    CosmosFullNodeStatus,
    ScheduledVolumeSnapshot,
    ScheduledVolumeSnapshotStatus,
    SnapshotPhase,
)
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client import APIError, StatusClient
from ctrlruntime.controller import Result, is_transient
from ctrlruntime.events import EventRecorder
from ctrlruntime.gate import Cause
from ctrlruntime.lifecycle import Lifecycle, ObjectPass, on_remote
from ctrlruntime.queue import Request
from ctrlruntime.resources import Action, Control
from ctrlruntime.resources.kept_metadata import KeptMetadata
from internal.cosmos.labels import PAUSE_FINALIZER
from internal.cosmos.snapshots.conditions import INVALID, conclude
from internal.cosmos.snapshots.effects import Create, Delete, Effect, Hold, Pause, Release, Restore
from internal.cosmos.snapshots.events import OF_PHASE, Note, Reason, of_step
from internal.cosmos.snapshots.facts import Facts
from internal.cosmos.snapshots.facts_reader import World, owner_of
from internal.cosmos.snapshots.machine import IDLE, Step, deadline, give_up, step
from internal.cosmos.snapshots.metrics import SnapshotMetrics
from internal.cosmos.snapshots.naming import pause_key
from internal.cosmos.snapshots.pausing import AnotherIsDown, pause, restore
from internal.cosmos.snapshots.snapshot_builder import build, recorded
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT

LOOKS: Final = 8
"""Most rounds of writing and doing in one go."""
RETRY: Final = timedelta(seconds=10)
"""Until what is waited for is read again without an event."""
APPEARING: Final = timedelta(seconds=1)
"""The same for VolumeSnapshots that are defined, and not read yet."""
LONGEST: Final = timedelta(hours=1)
"""The longest wait for a time of the schedule: clocks are set, machines sleep."""

NodeSetStatuses = StatusClient[CosmosFullNodeSpec, CosmosFullNodeStatus]
Status = ScheduledVolumeSnapshotStatus


class GivenUp(Exception):
    """An effect that no retry can reach; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWriters:
    """How objects are written."""

    node_sets: NodeSetStatuses
    """The status of sets of nodes, which others write too."""
    snapshots: Control
    """VolumeSnapshots."""
    kept: KeptMetadata
    """Restores labels and annotations of VolumeSnapshots."""


@dataclass(slots=True, kw_only=True)
class SnapshotReconciler:
    """Works on one ScheduledVolumeSnapshot at a time."""

    world: World
    """Facts."""
    writers: SnapshotWriters
    recorder: EventRecorder
    """Events."""
    metrics: SnapshotMetrics
    """Metrics."""
    clock: Callable[[], datetime]
    """The time that schedules go by."""

    @property
    def lifecycle(self) -> Lifecycle[ScheduledVolumeSnapshot]:
        """Return the life of ScheduledVolumeSnapshots. The finalizer is on while a node is down for one."""
        return Lifecycle(
            ScheduledVolumeSnapshot,
            reconcile=self.reconcile,
            unreadable=self.refuse,
            remote=on_remote(self.world.hub, APPEARING.total_seconds(), RETRY.total_seconds()),
            gone=self.bring_back,
            memory=[self.metrics],
        )

    async def reconcile(self, schedule: ScheduledVolumeSnapshot, this: ObjectPass) -> Result | None:
        """Go as far as possible without waiting."""
        for _ in range(LOOKS):
            if not await self._look(schedule, this) or not this.reread():
                break
        return self._wait(schedule, this.entry)

    async def refuse(self, schedule: ScheduledVolumeSnapshot, this: ObjectPass) -> Result | None:
        """Report a spec that cannot be read. A node that is down for it comes back; nothing else is done."""
        schedule.status.status = this.problem
        this.set_ready(schedule, False, INVALID, this.problem)
        await this.record(schedule)
        if not await self._restore_all(this.request):
            await this.set_finalizer(PAUSE_FINALIZER, there=False)
        held = this.reread() and PAUSE_FINALIZER in this.entry.finalizers
        return Result(requeue_after=RETRY.total_seconds()) if held else None

    async def bring_back(self, request: Request) -> None:
        """Restore the nodes of one that is gone: its finalizer may have been taken off by force."""
        await self._restore_all(request)

    async def _look(self, schedule: ScheduledVolumeSnapshot, this: ObjectPass) -> bool:
        """One round. Whether another is worth it at once."""
        entry, now = this.entry, self.clock().replace(microsecond=0)
        await self._keep_metadata(entry, schedule)
        outcome, facts = await self._decide(entry, schedule, now)
        if not facts.deleting:
            await self._record(schedule, this, outcome.status, facts, now)
        try:
            return await self._carry_out(schedule, this, outcome.effects, now)
        except GivenUp as error:
            given_up = give_up(schedule.spec, outcome.status, facts, str(error), now)
            await self._record(schedule, this, given_up, facts, now)
            return True
        except Exception as error:
            phase = outcome.status.phase or SnapshotPhase.WAITING_FOR_NEXT
            reason = OF_PHASE.get(phase, Reason.RESTORE_POD)
            self._record_events(entry, [(reason, f"{type(error).__name__}: {error}")])
            raise

    async def _decide(
        self, entry: Entry, schedule: ScheduledVolumeSnapshot, now: datetime
    ) -> tuple[Step, Facts]:
        """Decide with facts that are about the status that is decided on. Nothing is written."""
        at, effects = schedule, list[Effect]()
        for _ in range(LOOKS):
            facts = await self.world.facts(entry, at)
            outcome = step(at.spec, at.status, facts, now)
            effects += outcome.effects
            if not outcome.again:
                break
            at = at.model_copy(update={"status": outcome.status})
        return replace(outcome, effects=tuple(effects)), facts

    async def _keep_metadata(self, entry: Entry, schedule: ScheduledVolumeSnapshot) -> None:
        """Restore what was changed by hand of the labels and annotations of snapshots that were made."""
        if entry.deletion_timestamp is not None:
            return
        owner = owner_of(entry)
        for snapshot in self.world.own_snapshots(owner):
            await self.writers.kept.restore(snapshot)
            now = self.writers.snapshots.look(recorded(schedule, snapshot)) or snapshot
            await self.writers.snapshots.ensure(recorded(schedule, now), owner)

    async def _record(
        self,
        schedule: ScheduledVolumeSnapshot,
        this: ObjectPass,
        after: Status,
        facts: Facts,
        now: datetime,
    ) -> None:
        """Write down what is intended, before it is done."""
        before = schedule.status
        conclude(before, after, facts, now)
        schedule.status = after
        await this.record(schedule)
        self._record_events(this.entry, of_step(before, after, facts))
        self.metrics.show(this.request, before, after)

    # -- effects ----------------------------------------------------------------------------------

    async def _carry_out(
        self,
        schedule: ScheduledVolumeSnapshot,
        this: ObjectPass,
        effects: tuple[Effect, ...],
        now: datetime,
    ) -> bool:
        """Do everything. Whether it was done: else it is tried again after a while."""
        done, entry = bool(effects), this.entry
        for effect in effects:
            match effect:
                case Hold() | Release():
                    await this.set_finalizer(PAUSE_FINALIZER, there=isinstance(effect, Hold))
                case Pause():
                    done &= await self._pause(entry, schedule, effect, now)
                case Restore():
                    await self._restore(entry.namespace, entry.name, effect.node_sets)
                case Create():
                    await self._create(entry, schedule, effect)
                case Delete():
                    done &= await self._delete(entry, effect)
        return done

    async def _pause(
        self, entry: Entry, schedule: ScheduledVolumeSnapshot, effect: Pause, now: datetime
    ) -> bool:
        key = pause_key(entry.namespace, entry.name)
        change = pause(key, entry.namespace, effect.pod, now)
        try:
            await self.writers.node_sets.sync_status(
                schedule.spec.full_node_ref.name, change, namespace=entry.namespace
            )
        except AnotherIsDown:
            return False  # the watch delivers it, and then its end
        return True

    async def _restore(self, namespace: str, name: str, node_sets: tuple[str, ...]) -> None:
        change = restore(pause_key(namespace, name))
        for node_set in node_sets:
            await self.writers.node_sets.sync_status(node_set, change, namespace=namespace)

    async def _create(
        self, entry: Entry, schedule: ScheduledVolumeSnapshot, effect: Create
    ) -> None:
        desired = build(schedule, effect)
        try:
            outcome = await self.writers.snapshots.ensure(desired, owner_of(entry))
        except APIError as error:
            if is_transient(error):
                raise
            raise GivenUp(f"the server refuses the VolumeSnapshot: {error}") from error
        if outcome.action is Action.CONFLICT:
            raise GivenUp(f"VolumeSnapshot {effect.name}: {outcome.conflict}")
        if outcome.action is Action.TERMINATING:
            raise GivenUp(f"VolumeSnapshot {effect.name} is being deleted")

    async def _delete(self, entry: Entry, effect: Delete) -> bool:
        """Each by itself; what cannot be deleted keeps nothing else from being done."""
        troubles: list[Note] = []
        for name in effect.names:
            found = self.world.snapshots.get(name, namespace=entry.namespace)
            if found is None:
                continue
            try:
                await self.writers.snapshots.remove(
                    VOLUME_SNAPSHOT, found, owner_of(entry), Cause.RETENTION
                )
            except APIError as error:
                troubles.append((Reason.DELETE_OLD_SNAPSHOTS, f"{name}: {error}"))
        self._record_events(entry, troubles)
        return not troubles

    async def _restore_all(self, request: Request) -> bool:
        """Restore whatever is down for one. Return whether anything was."""
        paused = self.world.paused(request.namespace, request.name)
        sets = tuple(sorted({each.node_set for each in paused}))
        await self._restore(request.namespace, request.name, sets)
        return bool(sets)

    # -- waiting ----------------------------------------------------------------------------------

    def _wait(self, schedule: ScheduledVolumeSnapshot, entry: Entry) -> Result | None:
        status, now = schedule.status, self.clock()
        if status.phase is SnapshotPhase.MISSING_CRDS and not schedule.spec.suspend:
            return (
                Result(requeue_after=APPEARING.total_seconds()) if self.world.is_defined() else None
            )
        limit = deadline(schedule.spec, status)
        moments = [] if limit is None or limit <= now else [limit]
        if status.phase not in IDLE or entry.deletion_timestamp is not None:
            moments.append(now + RETRY)
        elif status.next_at is not None:
            moments.append(min(status.next_at, now + LONGEST))
        if not moments:
            return None
        return Result(requeue_after=max((min(moments) - now).total_seconds(), 0.01))

    def _record_events(self, entry: Entry, notes: list[Note]) -> None:
        for reason, text in notes:
            self.recorder.event(entry, "Warning", reason, "Snapshot", text)
