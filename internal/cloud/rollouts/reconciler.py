"""Reconciles one FleetRollout: assigns its version to the instances whose turn it is, and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from apis.cloud import FleetRollout, FleetRolloutSpec
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.lifecycle import Lifecycle, ObjectPass
from ctrlruntime.queue import Request
from ctrlruntime.rollout import (
    ChangeHolds,
    Decision,
    NoHolds,
    ObservedClock,
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
from internal.cloud.rollouts.metrics import RolloutMetrics
from internal.cloud.rollouts.reports import report
from internal.cloud.rollouts.status import invalid, summarize, superseded
from internal.cloud.rollouts.strategy import InvalidRollout, strategy_of

AGAIN: Final = timedelta(seconds=1)
"""Until an assignment that met a conflict is decided on again."""
SUPERSEDED: Final = "A newer FleetRollout selects all of its instances."


@dataclass(slots=True)
class FleetRolloutReconciler:
    """Assigns versions to instances. All state of a rollout is on its instances, so a restart changes nothing.

    Only one pass may run at a time in a process: rollouts of a namespace may select the same instances.
    """

    fleet: FleetReader
    assigner: Assigner
    metrics: RolloutMetrics
    clock: Callable[[], datetime]
    observed: ObservedClock
    """Finds jumps of the clock: what it jumps over is no time that a version took."""
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds assignments from outside."""
    checks: HealthEvaluator = field(default_factory=NoHealthEvaluator)
    """Evaluates the checks of health."""

    @property
    def lifecycle(self) -> Lifecycle[FleetRollout]:
        """Return the life of rollouts."""
        return Lifecycle(
            FleetRollout,
            reconcile=self.reconcile,
            unreadable=self.refuse,
            until_deleted=True,
            counted=self.fleet.counted,
            memory=[self.metrics, self.holds, self.checks],
        )

    async def reconcile(self, rollout: FleetRollout, this: ObjectPass) -> Result | None:
        """Make one pass. Raises the client's errors when the server gives no usable answer."""
        try:
            strategy = strategy_of(rollout.spec, this.entry.annotations)
        except InvalidRollout as error:
            status = invalid(rollout.status, str(error), this.entry.generation, self.clock())
            report(self.metrics, rollout, this, status, rollout.spec)
            return None
        hold = self.holds.waiting(this.request, this.entry)
        strategy = replace(strategy, hold=hold, jumps=self.observed.jumps())
        return await self._roll_out(rollout, this, strategy)

    async def refuse(self, rollout: FleetRollout, this: ObjectPass) -> None:
        """Report a spec that cannot be read; what is known of its instances stays."""
        problem = f"It cannot be read: {this.problem}"
        status = invalid(rollout.status, problem, this.entry.generation, self.clock())
        report(self.metrics, rollout, this, status)

    async def _roll_out(
        self, rollout: FleetRollout, this: ObjectPass, strategy: Strategy
    ) -> Result | None:
        spec, entry, now = rollout.spec, this.entry, self.clock()
        fleet, decision, seen = await self._decide(entry, spec, strategy)
        health = self._health(rollout, entry, strategy, decision)
        if health is not None and (health.halt or health.hold):
            strategy = with_health(strategy, health)
            fleet, decision, seen = await self._decide(entry, spec, strategy)
        wrote = [
            await self.assigner.assign(entry, spec, change, seen[change.name])
            for change in decision.changes
        ]
        if decision.changes:
            fleet, decision, seen = await self._decide(entry, spec, strategy)
        wrote += [await self.assigner.write_again(spec, seen[name]) for name in fleet.write_again]
        await self.fleet.yielder.maybe_yield()
        if not fleet.members and _is_superseded(fleet):
            after = superseded(rollout.status, spec, SUPERSEDED, entry.generation, now)
        else:
            place = f"{entry.name} -n {entry.namespace}"
            known = rollout.status, spec, decision, fleet, strategy
            after = summarize(*known, entry.generation, now, place=place)
        if spec.health_checks:
            after.health_checks = rollout.status.health_checks if health is None else health.status
        report(self.metrics, rollout, this, after, spec)
        self.holds.record(this.request, 0 if decision.frozen is None else _held(decision))
        moments = [item for item in (decision.look_again, fleet.look_again) if item is not None]
        if not all(wrote):  # a conflict need not be followed by an event of the instance
            moments.append(self.clock() + AGAIN)
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
