"""Checks of health outside of the members: what their results mean for a rollout. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from ctrlruntime.api.conditions import shorten
from ctrlruntime.api.scalars import format_time
from ctrlruntime.queue import Request
from ctrlruntime.rollout.decision import Decision
from ctrlruntime.rollout.health_checks import HealthCheck, HealthCheckState, HealthCheckStatus
from ctrlruntime.rollout.strategy import Strategy
from ctrlruntime.rollout.waiting import Reason, Waiting

__all__ = [
    "Assessment",
    "CheckResult",
    "CheckedTarget",
    "HealthEvaluator",
    "NoHealthEvaluator",
    "assess",
    "evaluate_health",
    "with_health",
]

STALE_AFTER: Final = 3
"""Periods after which a result does not count any more."""
NO_RESULT: Final = "it has no result yet"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check gave."""

    state: HealthCheckState
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class CheckedTarget:
    """What is rolled out: its version, and what hooks receive about it."""

    version: str
    subject: Mapping[str, str] = field(default_factory=dict)


class HealthEvaluator(Protocol):
    """Evaluates checks beside a reconciler, which is queued again by each result."""

    def results(
        self,
        request: Request,
        checks: Sequence[HealthCheck],
        target: CheckedTarget,
        now: datetime,
    ) -> Mapping[str, CheckResult]:
        """Return the last results by name, and begin to evaluate the checks whose period is over."""
        ...

    def forget(self, request: Request) -> None:
        """Drop the results of a rollout that needs none for now."""
        ...


@dataclass(frozen=True, slots=True)
class NoHealthEvaluator:
    """Evaluates nothing, for the reason given."""

    why: str = "nothing evaluates it"

    def results(
        self,
        request: Request,
        checks: Sequence[HealthCheck],
        target: CheckedTarget,
        now: datetime,
    ) -> Mapping[str, CheckResult]:
        """Return for each check why it has no result."""
        return {
            check.name: CheckResult(HealthCheckState.UNKNOWN, self.why, now) for check in checks
        }

    def forget(self, request: Request) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What results mean: the status of each check, what halts, and what changes wait for."""

    status: list[HealthCheckStatus] = field(default_factory=list)
    halt: str = ""
    hold: Waiting | None = None


def evaluate_health(
    evaluator: HealthEvaluator,
    request: Request,
    target: CheckedTarget,
    strategy: Strategy,
    decision: Decision,
    before: Sequence[HealthCheckStatus],
    now: datetime,
) -> Assessment | None:
    """Return what the checks of a strategy mean for a decision made without them; None if none is needed now.

    Nothing is evaluated before there is something to change, while paused, and after the last soak.
    """
    watched = decision.watched_until is not None
    goes_on = watched or decision.updated < decision.total
    if not strategy.health_checks or strategy.halt or strategy.paused or not goes_on:
        evaluator.forget(request)
        return None
    results = evaluator.results(request, strategy.health_checks, target, now)
    return assess(
        strategy.health_checks,
        target.version,
        before,
        results,
        now,
        watched=watched,
        resumed_at=strategy.resumed_at,
    )


def with_health(strategy: Strategy, assessment: Assessment | None) -> Strategy:
    """Return the strategy, halted or held by its checks."""
    if assessment is None or not (assessment.halt or assessment.hold):
        return strategy
    return replace(strategy, halt=assessment.halt, hold=strategy.hold or assessment.hold)


def assess(
    checks: Sequence[HealthCheck],
    version: str,
    before: Sequence[HealthCheckStatus],
    results: Mapping[str, CheckResult],
    now: datetime,
    *,
    watched: bool,
    resumed_at: datetime | None = None,
) -> Assessment:
    """Return what the results of a rollout's checks mean while `version` is rolled out.

    `watched`: a member has changed, and its soak is not over. A failure counts from then on until the rollout is
    resumed or has another target, also if the check recovers: what was rolled back is no evidence any more.
    """
    known = {item.name: item for item in before}
    status: list[HealthCheckStatus] = []
    halts: list[str] = []
    holds: list[str] = []
    for check in checks:
        result = _fresh(check, results.get(check.name), now)
        found = _status(known.get(check.name), check, result)
        if (
            watched
            and result.state is HealthCheckState.FAILING
            and not _counts(found, version, resumed_at)
        ):
            found.failed_at, found.failed_version = now, version
            found.message = shorten(result.message)
        if _counts(found, version, resumed_at):
            halts.append(_failure(found))
        elif result.state is HealthCheckState.FAILING:
            holds.append(f"the health check {check.name!r} fails: {found.message}")
        elif result.state is HealthCheckState.UNKNOWN:
            holds.append(f"the health check {check.name!r} has no result: {found.message}")
        status.append(found)
    hold = Waiting(Reason.HEALTH, shorten("; ".join(holds))) if holds else None
    return Assessment(status=status, halt=shorten("; ".join(halts)), hold=hold)


def _fresh(check: HealthCheck, result: CheckResult | None, now: datetime) -> CheckResult:
    if result is None:
        return CheckResult(HealthCheckState.UNKNOWN, NO_RESULT, now)
    if now - result.at > timedelta(seconds=STALE_AFTER * check.period_seconds):
        return CheckResult(HealthCheckState.UNKNOWN, "its last result is too old", now)
    return result


def _status(
    before: HealthCheckStatus | None, check: HealthCheck, result: CheckResult
) -> HealthCheckStatus:
    """Return the status with the result. Each value would be a write: within one state the message stays.

    Only a reason for there being no result replaces another.
    """
    same = before is not None and before.state is result.state
    if before is not None and same and result.state is not HealthCheckState.UNKNOWN:
        return before.model_copy(deep=True)
    found = HealthCheckStatus(name=check.name, state=result.state, message=shorten(result.message))
    if before is not None:
        found.failed_at, found.failed_version = before.failed_at, before.failed_version
    return found


def _failure(status: HealthCheckStatus) -> str:
    """Return a recorded failure as a clause; its message is known for as long as the check fails."""
    failed = f"the health check {status.name!r} failed"
    if status.state is HealthCheckState.FAILING:
        return f"{failed}: {status.message}"
    at = "" if status.failed_at is None else f" at {format_time(status.failed_at)}"
    return f"{failed}{at}"


def _counts(status: HealthCheckStatus, version: str, resumed_at: datetime | None) -> bool:
    """Whether a failure is recorded that halts the rollout of this version."""
    if status.failed_at is None or status.failed_version != version:
        return False
    return resumed_at is None or status.failed_at > resumed_at
