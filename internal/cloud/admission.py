"""What is rejected on admission when a FleetRollout or an Instance is written, instead of in its status later.

The checks are the reconcilers', and one of the order of waves that no status has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from apis.cloud import FleetRollout, FleetRolloutSpec, FleetWave, Instance
from apis.windows import MaintenanceWindow, windows_of
from ctrlruntime.rollout import BadWindow
from ctrlruntime.rollout.health_checks import health_check_problems
from ctrlruntime.schedule import BadSchedule
from ctrlruntime.webhook import AdmissionOptions, Review, validates
from internal.cloud.environment_names import prefix_problem
from internal.cloud.taskdriver.drift_checks import schedule_of
from internal.cloud.version_policy import version_problem

ADMISSION: Final = AdmissionOptions(failure_policy="Ignore", timeout_seconds=5)
"""Without a manager everything is let in: the status reports it. Deletions are not reviewed."""
WINDOWS: Final = "spec.maintenanceWindows"


class CloudAdmission:
    """Validates FleetRollouts and Instances."""

    def __init__(self, allowed_environment: Sequence[str] = ()) -> None:
        """`allowed_environment`: see :func:`prefix_problem`."""
        self._allowed_environment = allowed_environment

    @validates("create", "update")
    def check_rollout(self, rollout: FleetRollout, review: Review[FleetRollout]) -> None:
        """Refuse a rollout that could not be carried out, or whose waves go back."""
        spec = rollout.spec
        if review.old is not None and review.old.spec == spec:
            return
        _check_windows(spec.maintenance_windows, review)
        for problem in health_check_problems(spec.health_checks, "spec.healthChecks"):
            place, _, detail = problem.partition(": ")
            review.forbidden(place, detail)
        names = [wave.name for wave in spec.waves]
        if spec.start_at and spec.start_at not in names:
            allowed = ", ".join(names) or "none: there are no waves"
            review.invalid("spec.startAt", spec.start_at, f"write one of: {allowed}")
        for field, share, message in shrinking_waves(spec):
            review.invalid(field, share, message)

    @validates("create", "update")
    def check_instance(self, instance: Instance, review: Review[Instance]) -> None:
        """Refuse maintenance windows that could never open, a schedule that cannot be read, and bad prefixes of variables."""
        self._check_environment(instance, review)
        _check_drift_detection(instance, review)
        _check_version(instance, review)
        windows = instance.spec.maintenance_windows
        if review.old is not None and review.old.spec.maintenance_windows == windows:
            return
        _check_windows(windows, review)

    def _check_environment(self, instance: Instance, review: Review[Instance]) -> None:
        """Refuse a prefix with which no key of a Secret can be a variable, unless it was written already."""
        before = review.old.spec.infrastructure.environment_from if review.old is not None else []
        known = {source.prefix for source in before}
        for number, source in enumerate(instance.spec.infrastructure.environment_from):
            problem = prefix_problem(source.prefix, self._allowed_environment)
            if problem and source.prefix not in known:
                place = f"spec.infrastructure.environmentFrom[{number}].prefix"
                review.invalid(place, source.prefix, problem)


def _check_version(instance: Instance, review: Review[Instance]) -> None:
    """Refuse a version that the policy does not permit after the one that runs, unless it was written already."""
    if review.old is None or review.old.spec.wanted_version == instance.spec.wanted_version:
        return
    wanted = instance.spec.wanted_version
    runs = review.old.status.version or review.old.spec.wanted_version
    annotations = instance.metadata.annotations or {}
    problem = version_problem(instance.spec.upgrade_policy, runs, wanted, annotations)
    if problem:
        review.invalid("spec.version", wanted, problem)


def _check_drift_detection(instance: Instance, review: Review[Instance]) -> None:
    wanted = instance.spec.drift_detection
    if wanted is None or (review.old is not None and review.old.spec.drift_detection == wanted):
        return
    try:
        schedule_of(wanted)
    except BadSchedule as error:
        field, _, detail = str(error).partition(" ")
        value = wanted.time_zone if field.endswith("timeZone") else wanted.schedule
        review.invalid(field, value, detail)


def _check_windows(
    windows: Sequence[MaintenanceWindow], review: Review[FleetRollout] | Review[Instance]
) -> None:
    for number, item in enumerate(windows):
        try:
            windows_of([item], WINDOWS)
        except BadWindow as error:
            field, _, detail = str(error).partition(" ")
            place = field.rstrip(":").removeprefix(f"{WINDOWS}[0].")
            value = item.time_zone if place == "timeZone" else item.schedule
            review.invalid(f"{WINDOWS}[{number}].{place}", value, detail)


def shrinking_waves(spec: FleetRolloutSpec) -> Iterator[tuple[str, int, str]]:
    """Yield each share that is lower than the same one of an earlier wave: the field, the share, and the remedy."""
    before: dict[str, tuple[int, str]] = {}
    for number, wave in enumerate(spec.waves):
        for field, share in _shares(wave).items():
            most, earlier = before.get(field, (0, ""))
            if share < most:
                text = (
                    f"a wave contains those before it, and the wave {earlier!r} has {most} percent: "
                    f"write {most} or more"
                )
                yield f"spec.waves[{number}].{field}", share, text
            else:
                before[field] = (share, wave.name)


def _shares(wave: FleetWave) -> Mapping[str, int]:
    """Return the shares that a wave names, by field."""
    found = {f"groups[{group}]": share for group, share in wave.groups.items()}
    return found if wave.percent is None else {**found, "percent": wave.percent}
