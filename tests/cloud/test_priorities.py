"""For which runs the priority of an instance and of its rollout counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from apis.cloud import (
    InstanceInvariants,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceTerraform,
    TaskPriority,
    TaskStatus,
    UpgradeInstanceTask,
)
from ctrlruntime.api import Resource
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.rollout import Change, ChangeKind
from internal.cloud.priorities import priority_of
from internal.cloud.release_assignment import ReleaseAssignment, format_assignment
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.taskdriver.inputs import inputs_of

R = TypeVar("R", bound=Resource[Any, TaskStatus])
OLD, NEW = "5.1.0", "5.1.1"
ASSIGNED = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
HIGH, NORMAL, LOW = TaskPriority.HIGH, TaskPriority.NORMAL, TaskPriority.LOW
SPECS: dict[type[Any], dict[str, Any]] = {
    InstanceTerraform: {},
    UpgradeInstanceTask: {"instanceName": "src-1", "fromVersion": OLD, "toVersion": NEW},
    InstanceKubernetes: {"version": NEW},
    InstanceInvariants: {"version": NEW},
    InstanceKubernetesPVC: {
        "namespace": "x",
        "disks": {"maxSize": "1Gi", "usage": {"url": "http://x"}},
    },
}


def instance(
    own: str | None = None, rollout: TaskPriority | None = None, deployed: str = OLD
) -> Entry:
    change = Change(ChangeKind.ROLLOUT, ASSIGNED, OLD)
    assignment = ReleaseAssignment(
        rollout="patch", version=NEW, spec_version=OLD, change=change, priority=rollout
    )
    manifest = {
        "apiVersion": "cloud.ctrlruntime.dev/v1",
        "kind": "Instance",
        "metadata": {"name": "src-1", "namespace": "d", "uid": "u"},
        "spec": {"version": OLD} | ({} if own is None else {"priority": own}),
        "status": {"version": deployed, "releaseAssignment": format_assignment(assignment)},
    }
    return EntryDecoder(GroupVersionKind.of(manifest)).decode_manifest(manifest)


def resource(
    kind: type[R], done: datetime | None = None, *, current: bool = False, **spec: object
) -> R:
    """Return an object whose last success was then; `current`: of the inputs that it has now."""
    found = kind.from_manifest(
        {"metadata": {"name": "src-1", "generation": 3}, "spec": {**SPECS[kind], **spec}}
    )
    if done is None:
        return found
    version = inputs_of(found).version if current else "2-earlier"
    success = {"inputsVersion": version, "runID": "x-0123456789ab", "finishedAt": done.isoformat()}
    return kind.from_manifest({**found.to_manifest(), "status": {"succeeded": success}})


def priority(found: Resource[Any, TaskStatus], entry: Entry | None) -> TaskPriority:
    (subresource,) = [item for item in SUBRESOURCES if item.kind is type(found)]
    return priority_of(subresource, found, entry)


def test_without_a_priority_every_run_is_normal() -> None:
    for kind in SPECS:
        assert priority(resource(kind), instance()) is NORMAL
        assert priority(resource(kind), None) is NORMAL


@pytest.mark.criterion("CP-ROLLOUT")
@pytest.mark.parametrize("kind", [InstanceTerraform, UpgradeInstanceTask])
def test_a_rollout_s_priority_counts_on_the_way_to_its_version(kind: type[Any]) -> None:
    assert priority(resource(kind), instance(rollout=HIGH)) is HIGH


@pytest.mark.criterion("CP-ROLLOUT")
@pytest.mark.parametrize("kind", [InstanceKubernetes, InstanceInvariants])
def test_it_counts_for_the_first_run_of_what_names_the_version(kind: type[Any]) -> None:
    entry = instance(rollout=HIGH, deployed=NEW)
    before, after = ASSIGNED - timedelta(hours=1), ASSIGNED + timedelta(hours=1)
    assert priority(resource(kind, before), entry) is HIGH
    assert priority(resource(kind, after), entry) is NORMAL, "a change that came later"
    old = resource(kind, before, version=OLD)
    assert priority(old, instance(rollout=HIGH)) is NORMAL, "the upgrade overtakes it"


@pytest.mark.criterion("CP-ROLLOUT")
def test_once_the_version_is_deployed_infrastructure_has_its_own_priority_again() -> None:
    assert priority(resource(InstanceTerraform), instance(rollout=HIGH, deployed=NEW)) is NORMAL
    upgrade = resource(UpgradeInstanceTask, toVersion="5.3.0")
    assert priority(upgrade, instance(rollout=HIGH)) is NORMAL, "an upgrade to another version"
    assert priority(resource(InstanceKubernetesPVC), instance(rollout=HIGH)) is NORMAL


@pytest.mark.criterion("CP-SPEC")
def test_the_higher_one_counts_and_what_is_carried_out_is_never_high() -> None:
    kind = InstanceTerraform
    assert priority(resource(kind), instance("Low", HIGH)) is HIGH
    assert priority(resource(kind), instance("High", LOW)) is HIGH
    assert priority(resource(kind), instance(None, LOW)) is LOW
    look = resource(kind, ASSIGNED, current=True)
    assert priority(look, instance("High", HIGH)) is NORMAL
    assert priority(look, instance("Low")) is LOW


def test_a_priority_that_cannot_be_read_is_none() -> None:
    assert priority(resource(InstanceTerraform), instance("Urgent")) is NORMAL
