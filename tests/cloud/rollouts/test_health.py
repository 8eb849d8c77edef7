"""Health of an instance in the version that counts: never better than its controller has reported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apis.cloud import Instance
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.rollout import Change, ChangeKind, Health
from internal.cloud.release_assignment import ReleaseAssignment, format_assignment
from internal.cloud.rollouts.members import FleetInstance, fleet_instance

pytestmark = pytest.mark.criterion("RO-FLEET-HEALTH")

OLD, NEW = "5.2.0", "5.3.0"
AT = datetime(2026, 3, 2, tzinfo=UTC)


def assignment(
    version: str, at: datetime, kind: ChangeKind = ChangeKind.ROLLOUT
) -> ReleaseAssignment:
    return ReleaseAssignment(
        rollout="release", version=version, spec_version=OLD, change=Change(kind, at, OLD)
    )


def seen(
    given: ReleaseAssignment | None,
    reported: ReleaseAssignment | None,
    version: str,
    phase: str = "Ready",
    observed: int = 1,
) -> FleetInstance:
    """Return an instance with an assignment, and a status that reports on another one perhaps."""
    metadata: dict[str, Any] = {"name": "a", "namespace": "default", "uid": "u", "generation": 1}
    condition = {
        "type": "Ready",
        "status": "True" if phase == "Ready" else "False",
        "reason": phase,
        "message": "",
        "lastTransitionTime": "2026-03-01T00:00:00Z",
    }
    status: dict[str, Any] = {
        "observedGeneration": observed,
        "phase": phase,
        "version": version,
        "conditions": [condition],
    }
    if given is not None:
        status["releaseAssignment"] = format_assignment(given)
    if reported is not None:
        status["assignedVersion"] = reported.as_status().to_wire()
    manifest = {
        "apiVersion": Instance.gvk().api_version,
        "kind": "Instance",
        "metadata": {**metadata, "resourceVersion": "1"},
        "spec": {"version": OLD},
        "status": status,
    }
    return fleet_instance(EntryDecoder(Instance.gvk()).decode_manifest(manifest))


def test_an_assignment_that_is_not_reported_yet_is_progressing() -> None:
    found = seen(assignment(NEW, AT), None, OLD)
    assert (found.version, found.health) == (NEW, Health.PROGRESSING)


def test_the_version_before_assigned_again_is_not_ready_by_the_report_from_before() -> None:
    back = assignment(OLD, AT + timedelta(minutes=1), ChangeKind.ROLLBACK)
    assert seen(back, None, OLD).health is Health.PROGRESSING
    assert seen(back, assignment(NEW, AT), OLD).health is Health.PROGRESSING
    assert seen(back, back, OLD).health is Health.READY


def test_a_report_of_the_assignment_counts_once_the_version_runs() -> None:
    given = assignment(NEW, AT)
    assert seen(given, given, OLD).health is Health.PROGRESSING
    assert seen(given, given, NEW).health is Health.READY
    assert seen(given, given, OLD, "Failed").health is Health.FAILED
    assert seen(given, given, NEW, observed=0).health is Health.PROGRESSING


def test_an_instance_without_assignment_is_ready_by_its_spec() -> None:
    assert seen(None, None, OLD).health is Health.READY
    assert seen(None, None, "5.1.0").health is Health.PROGRESSING
