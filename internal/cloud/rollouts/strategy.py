"""The spec of a FleetRollout as a strategy of the rollout engine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from apis.cloud import FleetRolloutSpec, FleetWave, RolloutAction, WaveApproval
from apis.windows import windows_of
from ctrlruntime.api.scalars import parse_time
from ctrlruntime.resources.revision import revision
from ctrlruntime.rollout import BadWindow, OnHalt, Strategy, Wave, Window
from ctrlruntime.rollout.health_checks import HealthCheck, health_check_problems
from internal.cloud.labels import APPROVED_WAVES, RESUMED_AT


class InvalidRollout(ValueError):
    """A spec or an annotation that cannot be used. The message names the field and the remedy."""


def approval_digest(spec: FleetRolloutSpec) -> str:
    """Return the digest of what an approval is given for: version, selector and waves."""
    return revision(
        {
            "targetVersion": spec.target_version,
            "selector": dict(spec.selector),
            "groupBy": spec.group_by,
            "waves": [wave.to_wire() for wave in spec.waves],
        }
    )


def approve_wave(annotations: Mapping[str, str], wave: str, digest: str) -> str:
    """Return the annotation APPROVED_WAVES with one wave more; approvals of another digest are dropped."""
    kept = sorted({wave, *_approved(annotations, digest)})
    return ",".join(f"{name}={digest}" for name in kept)


def _approved(annotations: Mapping[str, str], digest: str) -> set[str]:
    pairs = (
        item.strip().rpartition("=") for item in annotations.get(APPROVED_WAVES, "").split(",")
    )
    return {name for name, _, given in pairs if name and given == digest}


def strategy_of(spec: FleetRolloutSpec, annotations: Mapping[str, str]) -> Strategy:
    """Return the strategy of a rollout. Raises InvalidRollout."""
    undo = spec.action is RolloutAction.UNDO
    approved = _approved(annotations, approval_digest(spec))
    return Strategy(
        waves=tuple(_wave(item, approved) for item in _remaining(spec)),
        max_skew=spec.max_concurrent,
        progress_deadline=timedelta(seconds=spec.progress_deadline_seconds),
        soak=timedelta(seconds=spec.failure_soak_seconds),
        halt_on_failures=spec.halt_on_failures,
        on_halt=OnHalt.ROLLBACK if undo else spec.on_halt,
        halt="an undo was requested" if undo else "",
        irreversible=spec.irreversible,
        paused=spec.pause or spec.action is RolloutAction.ABORT,
        windows=_windows(spec),
        health_checks=_health_checks(spec),
        resumed_at=_resumed_at(annotations),
    )


def _remaining(spec: FleetRolloutSpec) -> list[FleetWave]:
    names = [wave.name for wave in spec.waves]
    if spec.start_at and spec.start_at not in names:
        raise InvalidRollout(f"spec.startAt: write one of {', '.join(names) or 'the waves'}")
    return spec.waves[names.index(spec.start_at) :] if spec.start_at else spec.waves


def _wave(item: FleetWave, approved: set[str]) -> Wave:
    others = 0 if item.groups else 100
    return Wave(
        name=item.name,
        percent=others if item.percent is None else item.percent,
        shares=item.groups,
        soak=timedelta(seconds=item.soak_seconds),
        max_concurrent=item.max_concurrent or None,
        approved=item.approval is WaveApproval.AUTOMATIC or item.name in approved,
    )


def _windows(spec: FleetRolloutSpec) -> tuple[Window, ...]:
    try:
        return windows_of(spec.maintenance_windows, "spec.maintenanceWindows")
    except BadWindow as error:
        raise InvalidRollout(str(error)) from None


def _health_checks(spec: FleetRolloutSpec) -> tuple[HealthCheck, ...]:
    problems = health_check_problems(spec.health_checks, "spec.healthChecks")
    if problems:
        raise InvalidRollout(problems[0])
    return tuple(spec.health_checks)


def _resumed_at(annotations: Mapping[str, str]) -> datetime | None:
    text = annotations.get(RESUMED_AT, "")
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise InvalidRollout(
            f"the annotation {RESUMED_AT} is no time with a zone: remove it, or resume the rollout"
        ) from None
