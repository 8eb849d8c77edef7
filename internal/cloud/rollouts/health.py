"""Checks of health outside of the instances: what their results mean for a rollout. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from apis.cloud import FleetRolloutSpec, HealthCheck, HealthCheckState, HealthCheckStatus
from ctrlruntime.api.conditions import shorten
from ctrlruntime.queue import Request
from ctrlruntime.rollout import Reason, Waiting

__all__ = ["CheckResult", "HealthChecks", "Judgement", "NoHealthChecks", "judge"]

STALE_AFTER: Final = 3
"""Periods after which a result does not count any more."""
NO_RESULT: Final = "it has no result yet"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check gave."""

    state: HealthCheckState
    message: str
    at: datetime


class HealthChecks(Protocol):
    """Evaluates checks beside the reconciler, and brings a rollout back once there are results."""

    def results(
        self, request: Request, spec: FleetRolloutSpec, now: datetime
    ) -> Mapping[str, CheckResult]:
        """Return the last results by name, and evaluate those checks whose turn it is."""
        ...

    def forget(self, request: Request) -> None:
        """Drop the results of a rollout that needs none for now."""
        ...


class NoHealthChecks:
    """Evaluates nothing: the manager allows no address."""

    def results(
        self, request: Request, spec: FleetRolloutSpec, now: datetime
    ) -> Mapping[str, CheckResult]:
        """Return for each check that its address is not allowed."""
        text = "the manager allows no address: start it with --health-check-url"
        refused = CheckResult(HealthCheckState.UNKNOWN, text, now)
        return {check.name: refused for check in spec.health_checks}

    def forget(self, request: Request) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What results mean: the status of each check, what halts, and what changes wait for."""

    status: list[HealthCheckStatus] = field(default_factory=list)
    halt: str = ""
    hold: Waiting | None = None


def judge(
    spec: FleetRolloutSpec,
    before: Sequence[HealthCheckStatus],
    results: Mapping[str, CheckResult],
    now: datetime,
    *,
    watched: bool,
    resumed_at: datetime | None = None,
) -> Judgement:
    """Return what the results of a rollout's checks mean.

    `watched`: an instance has changed, and its soak is not over. A failure counts from then on until the rollout is
    resumed or has another target, also if the check recovers: what was rolled back is no evidence any more.
    """
    known = {item.name: item for item in before}
    status: list[HealthCheckStatus] = []
    halts: list[str] = []
    holds: list[str] = []
    for check in spec.health_checks:
        result = _fresh(check, results.get(check.name), now)
        found = _status(known.get(check.name), check, result)
        if (
            watched
            and result.state is HealthCheckState.FAILING
            and not _counts(found, spec, resumed_at)
        ):
            found.failed_at, found.failed_version = now, spec.target_version
            found.message = shorten(result.message)
        if _counts(found, spec, resumed_at):
            halts.append(f"the health check {check.name!r} failed: {found.message}")
        elif result.state is HealthCheckState.FAILING:
            holds.append(f"the health check {check.name!r} fails: {result.message}")
        elif result.state is HealthCheckState.UNKNOWN:
            holds.append(f"the health check {check.name!r} has no result: {result.message}")
        status.append(found)
    hold = Waiting(Reason.HEALTH, shorten("; ".join(holds))) if holds else None
    return Judgement(status=status, halt=shorten("; ".join(halts)), hold=hold)


def _fresh(check: HealthCheck, result: CheckResult | None, now: datetime) -> CheckResult:
    if result is None:
        return CheckResult(HealthCheckState.UNKNOWN, NO_RESULT, now)
    if now - result.at > timedelta(seconds=STALE_AFTER * check.period_seconds):
        return CheckResult(HealthCheckState.UNKNOWN, "its last result is too old", now)
    return result


def _status(
    before: HealthCheckStatus | None, check: HealthCheck, result: CheckResult
) -> HealthCheckStatus:
    """Return the status with the result. Within one state the message stays, or each value would be a write."""
    if before is not None and before.state is result.state:
        return before.model_copy(deep=True)
    found = HealthCheckStatus(name=check.name, state=result.state, message=shorten(result.message))
    if before is not None:
        found.failed_at, found.failed_version = before.failed_at, before.failed_version
    return found


def _counts(status: HealthCheckStatus, spec: FleetRolloutSpec, resumed_at: datetime | None) -> bool:
    """Whether a failure is recorded that halts this target."""
    if status.failed_at is None or status.failed_version != spec.target_version:
        return False
    return resumed_at is None or status.failed_at > resumed_at
