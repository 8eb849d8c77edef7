"""What a pass comes to: the phase, the sentence, and when a set is looked at again."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cosmos import CosmosFullNode, CosmosFullNodeStatus, FullNodePhase, RolloutStatus
from ctrlruntime.api import Condition, set_condition
from ctrlruntime.controller.aggregate_error import TransientError, UnrecoverableError
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.events import of_status
from internal.cosmos.fullnode.phase import Found, Verdict, conditions, rollout_of, verdict
from internal.cosmos.times import Times
from internal.cosmos.workload.claims import SIZE, ClaimProgress, Immutable
from internal.cosmos.workload.workload import Progress
from tests.cosmos.fullnode.test_status import NOON

TIMES = Times(progress=3, external=30, failure=60, upgrade=10)
RESTING = Progress()
KEPT = ClaimProgress()


def found(*errors: Exception, **more: object) -> Found:
    findings = Findings()
    for error in errors:
        findings.append(error)
    given: dict[str, Any] = {"findings": findings, "pods": RESTING, "claims": KEPT, **more}
    return Found(**given)


def judged(given: Found, ready: int = 3, wanted: int = 3) -> Verdict:
    return verdict(given, ready, wanted, TIMES)


def node_set(**template: object) -> CosmosFullNode:
    return CosmosFullNode.from_manifest(
        {
            "apiVersion": "cosmos.ctrlruntime.dev/v1",
            "kind": "CosmosFullNode",
            "metadata": {"name": "hub", "namespace": "default"},
            "spec": {
                "replicas": 1,
                "chain": {
                    "chainID": "a",
                    "network": "b",
                    "binary": "c",
                    "app": {"minGasPrice": "1"},
                },
                "podTemplate": {"image": "d"},
                "volumeClaimTemplate": {
                    "storageClassName": "e",
                    "resources": {"requests": {"storage": "1Gi"}},
                    **template,
                },
            },
        }
    )


@pytest.mark.criterion("COSMOS-A2-10")
def test_what_is_as_it_should_be_is_not_looked_at_again() -> None:
    said = judged(found())
    assert (said.phase, said.requeue_after) == (FullNodePhase.COMPLETE, None)
    assert said.message == "3 of 3 nodes have caught up."


@pytest.mark.criterion("COSMOS-A2-9")
def test_failures_pass_only_if_all_of_them_do() -> None:
    passing, lasting = TransientError("busy"), UnrecoverableError("bad name")
    said = judged(found(passing))
    assert (said.phase, said.requeue_after) == (FullNodePhase.TRANSIENT_ERROR, 3)
    said = judged(found(passing, lasting))
    assert (said.phase, said.requeue_after) == (FullNodePhase.ERROR, 60)
    assert said.message == "busy; bad name."


def test_failures_go_before_progress() -> None:
    busy = Progress(requeue=True, created=["hub-0"])
    assert judged(found(UnrecoverableError("no"), pods=busy)).phase is FullNodePhase.ERROR


@pytest.mark.criterion("COSMOS-A2-10")
def test_what_was_just_done_is_looked_at_soon_and_what_others_do_later() -> None:
    done = found(pods=Progress(requeue=True, outdated=2, replaced=["hub-0"]))
    assert judged(done).requeue_after == 3
    blocked = found(pods=Progress(requeue=True, outdated=2, blocked="hub-1: catching up"))
    said = judged(blocked)
    assert (said.phase, said.requeue_after) == (FullNodePhase.PROGRESSING, 30)
    assert said.message == "2 Pods are outdated: hub-1: catching up."


def test_a_claim_without_its_source_is_waited_for() -> None:
    waiting = ClaimProgress(requeue=True, waiting={"pvc-hub-0": "no snapshot is ready"})
    said = judged(found(claims=waiting))
    assert (said.phase, said.requeue_after) == (FullNodePhase.PROGRESSING, 30)
    assert said.message == "Claim pvc-hub-0 waits: no snapshot is ready."


def test_addresses_are_waited_for_last() -> None:
    said = judged(found(awaited=["hub-0"]))
    assert (said.phase, said.requeue_after) == (FullNodePhase.WAITING_FOR_P2P_SERVICES, 30)
    assert "hub-0" in said.message


def test_a_node_at_the_height_of_another_version_is_looked_at_when_its_time_is_over() -> None:
    assert judged(found(crossing=7.5)).requeue_after == 7.5
    assert judged(found(UnrecoverableError("no"), crossing=7.5)).requeue_after == 7.5


def test_long_messages_are_cut() -> None:
    said = judged(found(UnrecoverableError("x" * 5000)))
    assert len(said.message) < 1100


def test_the_budget_is_reported_only_while_something_is_outdated() -> None:
    assert rollout_of(Progress(budget=1)) == RolloutStatus()
    assert rollout_of(Progress(budget=1, outdated=2)) == RolloutStatus(outdated=2, budget=1)
    assert rollout_of(None) is None, "what was known stays"


@pytest.mark.criterion("COSMOS-A10-37")
@pytest.mark.parametrize(
    ("progress", "status", "reason", "names"),
    [
        (ClaimProgress(), "True", "AsSpecified", ""),
        (
            ClaimProgress(immutable=[Immutable("pvc-hub-0", "accessModes", ["a"], ["b"])]),
            "False",
            "ImmutableFieldChanged",
            "accessModes",
        ),
        (ClaimProgress(cannot_expand=["pvc-hub-0"]), "False", "CannotExpand", "pvc-hub-0"),
        (
            ClaimProgress(immutable=[Immutable("pvc-hub-0", SIZE, "2Gi", "1Gi")]),
            "False",
            "CannotShrink",
            "pvc-hub-0",
        ),
        (
            ClaimProgress(growing={"a": "1Gi of 2Gi"}, resize_failed={"a": "too large"}),
            "False",
            "ResizeFailed",
            "too large",
        ),
        (ClaimProgress(growing={"a": "1Gi of 2Gi"}), "Unknown", "Resizing", "1Gi of 2Gi"),
        (
            ClaimProgress(needs_restart=["pvc-hub-0"]),
            "False",
            "FileSystemResizePending",
            "pvc-hub-0",
        ),
        (
            ClaimProgress(unbound={"pvc-hub-0": "fast"}),
            "False",
            "StorageClassMissing",
            "no StorageClass fast",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_claims_are_reported_in_a_condition(
    progress: ClaimProgress, status: str, reason: str, names: str
) -> None:
    told = conditions(node_set(), found(claims=progress))
    assert [(item.type, item.status, item.reason) for item in told] == [
        ("ClaimsAsSpecified", status, reason)
    ]
    assert names in told[0].message
    events = of_status(CosmosFullNodeStatus(), CosmosFullNodeStatus(conditions=told))
    assert [each.reason for each in events] == ([reason] if status == "False" else [])


def test_what_is_held_back_is_reported_for_every_kind() -> None:
    given = found(pods=Progress(held=["hub-0"]), claims=ClaimProgress(held=["pvc-hub-0"]))
    given.findings.held.append("Service hub-rpc")
    held = {item.type: item for item in conditions(node_set(), given)}["BuilderChangeHeld"]
    assert held.status == "True"
    for name in ("hub-0", "pvc-hub-0", "Service hub-rpc"):
        assert name in held.message


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({}, False),
        ({"autoDataSource": {"volumeSnapshotSelector": {"a": "b"}}}, True),
        ({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}, False),
        (
            {
                "dataSource": {
                    "apiGroup": "snapshot.storage.k8s.io",
                    "kind": "VolumeSnapshot",
                    "name": "x",
                }
            },
            True,
        ),
    ],
    ids=["none", "auto", "claim", "snapshot"],
)
def test_snapshots_count_only_where_disks_are_filled_from_them(
    template: dict[str, Any], expected: bool
) -> None:
    told = conditions(node_set(**template), found(snapshots_served=False))
    assert ("CRDsAvailable" in {item.type for item in told}) is expected


@pytest.mark.criterion("COSMOS-A8-4")
def test_events_tell_of_changes_for_the_worse_and_of_nothing_that_stays() -> None:
    before = CosmosFullNodeStatus(phase=FullNodePhase.COMPLETE, status="fine")
    worse = before.model_copy(update={"phase": FullNodePhase.ERROR, "status": "bad"}, deep=True)
    bad = Condition(type="ClaimsAsSpecified", status="False", reason="CannotShrink", message="size")
    set_condition(worse.conditions, bad, NOON)
    told = [(note.reason.value, note.text) for note in of_status(before, worse)]
    assert told == [("Error", "bad"), ("CannotShrink", "size")]
    assert of_status(worse, worse) == []
    assert of_status(worse, before) == []
