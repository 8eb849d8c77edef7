"""Health that is lost for something which the rollout did not change is no failure of the version."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from apis.cloud import Instance, InstanceStatus, Phase
from ctrlruntime.api.conditions import new_condition
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.rollout import Change, ChangeKind, Readiness
from internal.cloud.labels import RELEASE_ASSIGNMENT
from internal.cloud.release_assignment import ReleaseAssignment, format_assignment, with_progress
from internal.cloud.rollouts.members import _is_excused

NOW = datetime(2026, 1, 1, tzinfo=UTC)
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


def failed(kind: str = "InstanceKubernetes", inputs: str = "one", generation: int = 3) -> Instance:
    """An instance that was ready in its version with generation 3 and the inputs "one", and failed since."""
    given = ReleaseAssignment(
        rollout="r",
        version="5.2.0",
        spec_version="5.1.0",
        change=Change(ChangeKind.ROLLOUT, NOW, "5.1.0"),
    )
    ready = InstanceStatus(phase=Phase.READY, version="5.2.0")
    at = with_progress(given.as_status(), InstanceStatus(), ready, generation, NOW, "one")
    ready.assigned_version = at
    lost: dict[str, Any] = {"phase": "Failed", "version": "5.2.0"}
    lost["conditions"] = [new_condition("Ready", False, "Failed", "no").to_wire()]
    lost["children"] = [{"kind": kind, "name": "a", "phase": "Failed"}]
    after = InstanceStatus.model_validate(lost)
    after.assigned_version = with_progress(given.as_status(), ready, after, 3, NOW, inputs)
    manifest = {
        "metadata": {
            "name": "a",
            "annotations": {RELEASE_ASSIGNMENT: format_assignment(given)},
        },
        "spec": {"sourcegraphVersion": "5.1.0"},
    }
    found = Instance.model_validate(manifest)
    found.status = after
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
    ],
    ids=["version", "unknown", "shared bundle", "edit", "infrastructure", "invariants"],
)
def test_g_c4_only_what_the_rollout_changed_counts(lost: Instance, excused: bool) -> None:
    assert _is_excused(lost, STORED) is excused


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
