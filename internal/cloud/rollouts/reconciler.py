"""Reconciles one FleetRollout: assigns its version to the instances whose turn it is, and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from apis.cloud import (
    FleetRollout,
    FleetRolloutSpec,
    FleetRolloutStatus,
)
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.queue import Request
from ctrlruntime.rollout import (
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
from internal.cloud.rollouts.assigner import Assigner
from internal.cloud.rollouts.fleet_reader import FleetReader
from internal.cloud.rollouts.members import Fleet
from internal.cloud.rollouts.reports import RolloutReports
from internal.cloud.rollouts.status import invalid, summarize, superseded
from internal.cloud.rollouts.strategy import InvalidRollout, strategy_of

SUPERSEDED: Final = "A newer FleetRollout selects all of its instances."


@dataclass(slots=True)
class FleetRolloutReconciler:
    """Assigns versions to instances. All state of a rollout is on its instances, so a restart changes nothing.

    Only one pass may run at a time in a process: rollouts of a namespace may select the same instances.
    """

    fleet: FleetReader
    assigner: Assigner
    reports: RolloutReports
    clock: Callable[[], datetime]
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds assignments from outside."""
    checks: HealthEvaluator = field(default_factory=NoHealthEvaluator)
    """Evaluates the checks of health."""

    async def reconcile(self, request: Request) -> Result | None:
        """Make one pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.fleet.rollouts.get(request.name, namespace=request.namespace)
        if entry is None:
            self.reports.metrics.forget(request)
            self.holds.record(request, 0)
            self.checks.forget(request)
            return None
        if entry.deletion_timestamp is not None:
            return None
        entry = self.fleet.counted(entry)
        try:
            rollout = entry.typed(FleetRollout)
        except ValidationError as error:
            await self.reports.record(entry, _unreadable(entry, error, self.clock()))
            return None
        try:
            strategy = strategy_of(rollout.spec, entry.annotations)
        except InvalidRollout as error:
            status = invalid(rollout.status, str(error), entry.generation, self.clock())
            await self.reports.record(entry, (rollout.status, status), rollout.spec)
            return None
        hold = self.holds.waiting(request, entry)
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
            await self.assigner.assign(entry, spec, change, seen[change.name])
        if decision.changes:
            fleet, decision, seen = await self._decide(entry, spec, strategy)
        for name in fleet.write_again:
            await self.assigner.write_again(spec, seen[name])
        await self.fleet.yielder.maybe_yield()
        if not fleet.members and _is_superseded(fleet):
            after = superseded(rollout.status, spec, SUPERSEDED, entry.generation, now)
        else:
            place = f"{entry.name} -n {entry.namespace}"
            known = rollout.status, spec, decision, fleet, strategy
            after = summarize(*known, entry.generation, now, place=place)
        if spec.health_checks:
            after.health_checks = rollout.status.health_checks if health is None else health.status
        await self.reports.record(entry, (rollout.status, after), spec)
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
        fleet, seen = await self.fleet.read(entry, spec, now)
        decision = decide(spec.target_version, fleet.members, strategy, now)
        return fleet, decision, seen

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


def _held(decision: Decision) -> int:
    """Return how many assignments a freeze holds."""
    frozen = sum(item.reason is Reason.FROZEN for item in decision.waiting.values())
    return frozen + len(decision.returning)


def _is_superseded(fleet: Fleet) -> bool:
    return any(reason.startswith("the newer FleetRollout") for reason in fleet.skipped.values())


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
