"""Reconciles one FleetRollout: assigns its version to the instances whose turn it is, and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from pydantic import ValidationError

from apis.cloud import (
    FleetRollout,
    FleetRolloutSpec,
    FleetRolloutStatus,
    Instance,
    RolloutAction,
)
from ctrlruntime.api.conditions import shorten
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.store import NAMESPACE
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.memo import VersionMemo
from ctrlruntime.queue import Request
from ctrlruntime.rollout import (
    Assignment,
    ChangeHolds,
    Decision,
    NoHolds,
    Reason,
    Strategy,
    decide,
)
from ctrlruntime.rollout.health import (
    Assessment,
    CheckedTarget,
    HealthEvaluator,
    NoHealthEvaluator,
    evaluate_health,
    with_health,
)
from internal.cloud.labels import RELEASE_ASSIGNMENT
from internal.cloud.release_assignment import (
    ReleaseAssignment,
    format_assignment,
    recorded_assignment,
)
from internal.cloud.rollouts.members import (
    Fleet,
    FleetInstance,
    fleet_instance,
    fleet_of,
    newer_rollouts,
)
from internal.cloud.rollouts.metrics import RolloutMetrics
from internal.cloud.rollouts.status import WARNINGS, invalid, summarize, superseded
from internal.cloud.rollouts.strategy import InvalidRollout, strategy_of

ACTION: Final = "RollOut"
SUPERSEDED: Final = "A newer FleetRollout selects all of its instances."


class Entries(Protocol):
    """The objects of one kind as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...
    def by_index(self, index: str, value: str) -> Iterable[Entry]: ...


@dataclass(slots=True)
class FleetRolloutReconciler:
    """Assigns versions to instances. All state of a rollout is on its instances, so a restart changes nothing.

    Only one pass may run at a time in a process: rollouts of a namespace may select the same instances.
    """

    rollouts: Entries
    instances: Entries
    patcher: ObjectPatcher
    metrics: RolloutMetrics
    clock: Callable[[], datetime]
    recorder: EventRecorder
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds assignments from outside."""
    checks: HealthEvaluator = field(default_factory=NoHealthEvaluator)
    """Evaluates the checks of health."""
    yielder: LoopYielder = field(default_factory=LoopYielder)
    _memo: VersionMemo[str, FleetInstance] = field(default_factory=lambda: VersionMemo(20_000))

    async def reconcile(self, request: Request) -> Result | None:
        """Make one pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.rollouts.get(request.name, namespace=request.namespace)
        if entry is None:
            self.metrics.forget(request)
            self.holds.record(request, 0)
            self.checks.forget(request)
            return None
        if entry.deletion_timestamp is not None:
            return None
        try:
            rollout = entry.typed(FleetRollout)
        except ValidationError as error:
            await self._record(entry, _unreadable(entry, error, self.clock()))
            return None
        try:
            strategy = strategy_of(rollout.spec, entry.annotations)
        except InvalidRollout as error:
            status = invalid(rollout.status, str(error), entry.generation, self.clock())
            await self._record(entry, (rollout.status, status), rollout.spec)
            return None
        hold = self.holds.waiting(request, entry.annotations)
        return await self._roll_out(rollout, entry, replace(strategy, hold=hold))

    async def _roll_out(
        self, rollout: FleetRollout, entry: Entry, strategy: Strategy
    ) -> Result | None:
        spec, now = rollout.spec, self.clock()
        fleet, decision, seen = await self._decide(entry, spec, strategy)
        health = self._health(rollout, entry, strategy, decision)
        if health is not None and (health.halt or health.hold):
            strategy = with_health(strategy, health)
            fleet, decision, seen = await self._decide(entry, spec, strategy)
        for change in decision.changes:
            await self._assign(entry, spec, change, seen[change.name])
        if decision.changes:
            fleet, decision, seen = await self._decide(entry, spec, strategy)
        for name in fleet.reprioritize:
            await self._reprioritize(spec, seen[name])
        await self.yielder.maybe_yield()
        if not fleet.members and _is_superseded(fleet):
            after = superseded(rollout.status, spec, SUPERSEDED, entry.generation, now)
        else:
            after = summarize(
                rollout.status, spec, decision, fleet, strategy, entry.generation, now
            )
        if spec.health_checks:
            after.health_checks = rollout.status.health_checks if health is None else health.status
        await self._record(entry, (rollout.status, after), spec)
        request = Request(entry.name, namespace=entry.namespace)
        self.holds.record(request, 0 if decision.frozen is None else _held(decision))
        moments = [item for item in (decision.look_again, fleet.look_again) if item is not None]
        if health is not None:
            shortest = min(check.period_seconds for check in spec.health_checks)
            moments.append(self.clock() + timedelta(seconds=shortest))
        if not moments:
            return None
        return Result(requeue_after=max((min(moments) - self.clock()).total_seconds(), 0.1))

    async def _decide(
        self, entry: Entry, spec: FleetRolloutSpec, strategy: Strategy
    ) -> tuple[Fleet, Decision, dict[str, Entry]]:
        """Return what is decided, and by name the instances that it was decided on."""
        now = self.clock()
        listed = sorted(self.instances.by_index(NAMESPACE, entry.namespace), key=_name)
        found = []
        for item in listed:
            found.append(self._memo.compute(item.uid, item.resource_version, _maker(item)))
            await self.yielder.maybe_yield()
        fleet = fleet_of(
            entry.name,
            spec,
            found,
            newer_rollouts(entry, self.rollouts.by_index(NAMESPACE, entry.namespace)),
            now,
        )
        await self.yielder.maybe_yield()  # each step takes 30 ms for 10,000 instances
        decision = decide(spec.target_version, fleet.members, strategy, now)
        return fleet, decision, {item.name: item for item in listed}

    def _health(
        self, rollout: FleetRollout, entry: Entry, strategy: Strategy, decision: Decision
    ) -> Assessment | None:
        """Return what the checks of health mean for a decision without them; None if none is needed for now."""
        version = rollout.spec.target_version
        subject = {"rollout": entry.name, "namespace": entry.namespace, "targetVersion": version}
        return evaluate_health(
            self.checks,
            Request(entry.name, namespace=entry.namespace),
            CheckedTarget(version, subject),
            strategy,
            decision,
            rollout.status.health_checks,
            self.clock(),
        )

    async def _assign(
        self, entry: Entry, spec: FleetRolloutSpec, change: Assignment, found: Entry
    ) -> None:
        """Write a version onto an instance and record an event, unless the instance changed meanwhile."""
        assignment = ReleaseAssignment(
            rollout=entry.name,
            version=change.version,
            spec_version=str((found.field("spec") or {}).get("sourcegraphVersion", "")),
            change=change.change,
            priority=spec.priority,
        )
        if not await self._write(assignment, found):
            return
        text = f"{change.change.kind.value}: version {change.version} by FleetRollout {entry.name}"
        self.recorder.event(found, "Normal", "VersionAssigned", ACTION, text)

    async def _reprioritize(self, spec: FleetRolloutSpec, found: Entry) -> None:
        """Give an assignment the priority that the rollout has now."""
        assignment = recorded_assignment(found.annotations)
        if assignment is not None:
            await self._write(replace(assignment, priority=spec.priority), found)

    async def _write(self, assignment: ReleaseAssignment, found: Entry) -> bool:
        """Write an assignment, unless the instance is no longer as `found`, on which was decided. True if it was written.

        Another manager may have changed it since, and the cache may know: it must not be changed twice.
        """
        fields = {
            "annotations": {RELEASE_ASSIGNMENT: format_assignment(assignment)},
            "resourceVersion": found.resource_version,
        }
        try:
            await self.patcher.patch_metadata(Instance.mapping(), found, fields)
        except (Conflict, NotFound):
            return False  # its event brings the rollout back
        return True

    async def _record(
        self,
        entry: Entry,
        change: tuple[FleetRolloutStatus, FleetRolloutStatus],
        spec: FleetRolloutSpec | None = None,
    ) -> None:
        before, after = change
        requested = spec is not None and spec.action is not RolloutAction.ROLL_OUT
        request = Request(entry.name, namespace=entry.namespace)
        self.metrics.record(request, after, requested=requested)
        if not await self.patcher.write_status(FleetRollout.mapping(), entry, before, after):
            return
        known = (before.phase, before.target_version)
        if known != (after.phase, after.target_version):
            counts = f"{after.updated} of {after.total} instances have {after.target_version}"
            note = shorten(f"{counts}. {after.message}".strip())
            warns = after.phase in WARNINGS and not requested
            self.recorder.event(
                entry, "Warning" if warns else "Normal", after.phase.value, ACTION, note
            )


def _held(decision: Decision) -> int:
    """Return how many assignments a freeze holds."""
    frozen = sum(item.reason is Reason.FROZEN for item in decision.waiting.values())
    return frozen + len(decision.returning)


def _is_superseded(fleet: Fleet) -> bool:
    return any(reason.startswith("the newer FleetRollout") for reason in fleet.skipped.values())


def _name(entry: Entry) -> str:
    return entry.name


def _maker(entry: Entry) -> Callable[[], FleetInstance]:
    return lambda: fleet_instance(entry)


def _unreadable(
    entry: Entry, error: ValidationError, now: datetime
) -> tuple[FleetRolloutStatus, FleetRolloutStatus]:
    """Return the status of a rollout that cannot be decoded, with the places and without any value."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5]]
    bare = {**entry.decode(), "spec": {"targetVersion": "unknown"}}
    try:
        before = FleetRollout.from_manifest(bare).status
    except ValidationError:
        before = FleetRolloutStatus()
    return before, invalid(before, f"It cannot be read: {'; '.join(places)}", entry.generation, now)
