"""Health that is lost for something which the rollout did not change is no failure of the version."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apis.cloud import Instance, InstanceStatus, Phase, TaskStatus
from ctrlruntime.api.conditions import new_condition
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.rollout import (
    Change,
    ChangeKind,
    Health,
    Member,
    OnHalt,
    Readiness,
    Strategy,
    decide,
)
from internal.cloud.release_assignment import ReleaseAssignment, format_assignment, with_progress
from internal.cloud.rollouts.members import _is_excused
from internal.cloud.taskdriver.record import is_excused_loss

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATER = NOW + HOUR
CHANGE = Change(ChangeKind.ROLLOUT, NOW, "5.1.0")
pytestmark = pytest.mark.criterion("G-C4")


STORED = EntryDecoder(Instance.gvk()).decode_manifest(
    {
        "apiVersion": Instance.gvk().api_version,
        "kind": "Instance",
        "metadata": {
            "name": "a",
            "namespace": "d",
            "uid": "u",
            "resourceVersion": "1",
            "generation": 3,
        },
    }
)


def failed(
    kind: str = "InstanceKubernetes",
    inputs: str = "one",
    generation: int = 3,
    *,
    ready: Phase = Phase.READY,
    reason: str = "Failed",
    run_lost: bool = False,
) -> Instance:
    """An instance that was ready in its version with generation 3 and the inputs "one", and failed since."""
    given = ReleaseAssignment(
        rollout="r",
        version="5.2.0",
        spec_version="5.1.0",
        change=CHANGE,
    )
    before = InstanceStatus(phase=ready, version="5.2.0")
    at = with_progress(given.as_status(), InstanceStatus(), before, generation, NOW, "one")
    before.assigned_version = at
    lost: dict[str, Any] = {"phase": "Failed", "version": "5.2.0"}
    lost["conditions"] = [new_condition("Ready", False, reason, "no").to_wire()]
    lost["children"] = [{"kind": kind, "name": "a", "phase": "Failed", "runLost": run_lost}]
    after = InstanceStatus.model_validate(lost)
    after.assigned_version = with_progress(given.as_status(), before, after, 3, LATER, inputs)
    manifest = {
        "metadata": {"name": "a"},
        "spec": {"version": "5.1.0"},
    }
    found = Instance.model_validate(manifest)
    found.status = after
    found.status.release_assignment = format_assignment(given)
    return found


@pytest.mark.parametrize(
    ("lost", "excused"),
    [
        (failed(), False),
        (failed(inputs=""), False),
        (failed(inputs="another bundle"), True),
        (failed(generation=2), True),
        (failed(kind="InstanceTerraform"), True),
        (failed(kind="InstanceInvariants"), False),
        (failed(run_lost=True), True),
    ],
    ids=["version", "unknown", "shared bundle", "edit", "infrastructure", "invariants", "node"],
)
def test_g_c4_only_what_the_rollout_changed_counts(lost: Instance, excused: bool) -> None:
    assert _is_excused(lost, STORED) is excused


@pytest.mark.parametrize(
    ("before", "excused"),
    [
        ([{}], True),
        ([{"lost": True}], False),
        ([{"lost": True, "inputsVersion": "2-b"}], True),
        ([{"outcome": "Succeeded"}, {"lost": True}], True),
    ],
    ids=["first", "second", "of another change", "after a success"],
)
def test_g_c4_a_run_that_is_lost_once_more_is_no_accident(
    before: list[dict[str, Any]], excused: bool
) -> None:
    last = {"runID": "r-0", "inputsVersion": "1-a", "lost": True}
    history = [
        {"runID": f"r-{number}", "inputsVersion": "1-a", **each}
        for number, each in enumerate(before, 1)
    ]
    assert is_excused_loss(TaskStatus.model_validate({"run": last, "history": history})) is excused


RUNNING = Phase.RUNNING


@pytest.mark.parametrize(
    ("lost", "excused"),
    [
        (failed(ready=RUNNING), False),
        (failed(inputs="", ready=RUNNING), False),
        (failed(generation=2, ready=RUNNING), False),
        (failed(inputs="another bundle", ready=RUNNING), True),
        (failed(kind="InstanceTerraform", ready=RUNNING), True),
        (failed(ready=RUNNING, reason="BundleMissing"), True),
        (failed(ready=RUNNING, reason="ReconcileError"), True),
        (failed(ready=RUNNING, reason="VersionRefused"), False),
    ],
    ids=["version", "unknown", "edit", "bundle", "infrastructure", "no-bundle", "outage", "policy"],
)
def test_g_c4_what_breaks_before_it_was_ready_is_not_the_version_if_it_is_shared(
    lost: Instance, excused: bool
) -> None:
    assert _is_excused(lost, STORED) is excused


def test_g_c4_a_member_that_is_excused_before_it_was_ready_keeps_its_slot() -> None:
    """What was mended is tried in its whole time, and nobody else is changed until then."""
    mended = failed(inputs="another bundle", ready=RUNNING).status.assigned_version
    assert mended is not None
    assert mended.waited_until == LATER
    member = Member(
        name="a", version="v2", health=Health.FAILED, change=CHANGE, excused=True, health_since=NOW
    )
    assert member.is_changing(NOW + 9 * HOUR, HOUR)
    assert not member.has_failed(NOW + 9 * HOUR, HOUR, HOUR)
    assert not replace(member, was_ready=True).is_changing(NOW + 9 * HOUR, HOUR)


@pytest.mark.parametrize(
    ("causes", "lost_at", "fails"),
    [
        ({"InstanceInvariants: b: no answer"}, NOW, 0),
        ({"InstanceInvariants: b: no answer"}, NOW - timedelta(days=1), 1),
        ({"InstanceInvariants: b: other"}, NOW, 1),
        (set(), NOW, 1),
    ],
    ids=["same cause", "for long", "another cause", "none"],
)
def test_g_c4_what_fails_in_the_old_version_as_well_is_not_the_version(
    causes: set[str], lost_at: datetime, fails: int
) -> None:
    changed = Member(
        name="a",
        version="v2",
        health=Health.FAILED,
        health_since=NOW,
        change=CHANGE,
        causes=frozenset({"InstanceInvariants: b: no answer"}),
    )
    other = Member(
        name="b",
        version="v1",
        health=Health.FAILED,
        health_since=lost_at,
        causes=frozenset(causes),
    )
    strategy = Strategy(halt_on_failures=1, on_halt=OnHalt.ROLLBACK)
    decision = decide("v2", [changed, other], strategy, NOW + timedelta(minutes=1))
    assert len(decision.failed) == fails
    assert bool(decision.halted) is bool(fails)


@pytest.mark.parametrize(
    ("readiness", "lost", "excused"),
    [
        (Readiness(), True, False),
        (Readiness(first="1", now="1"), True, False),
        (Readiness(first="1", now="2"), True, True),
        (Readiness(first="1", now="1"), False, True),
    ],
)
def test_g_c4_the_rule(readiness: Readiness, lost: bool, excused: bool) -> None:
    assert readiness.excuses(failed=lost) is excused
