"""What a Job and its Pods tell of a run, told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from internal.cloud import labels as label_keys
from internal.cloud.runs import Run, RunState
from internal.cloud.runs.jobs.status import run_of

Manifest = dict[str, Any]


def job(*conditions: tuple[str, str], annotations: object = None, **metadata: object) -> Manifest:
    return {
        "metadata": {
            "name": "work-1",
            "namespace": "shops",
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations or {},
            **metadata,
        },
        "spec": {"activeDeadlineSeconds": 660},
        "status": {
            "conditions": [
                {"type": t, "status": "True", "reason": r, "lastTransitionTime": "2026-01-01T00:01:00Z"}
                for t, r in conditions
            ]
        },
    }  # fmt: skip


def pod(phase: str, state: Manifest | None = None, **status: object) -> Manifest:
    statuses = [
        {"name": "sidecar", "state": {"terminated": {"exitCode": 9}}},
        {"name": "task", "state": state or {}},
    ]
    return {
        "metadata": {"name": "work-1-x", "creationTimestamp": "2026-01-01T00:00:01Z"},
        "spec": {
            "nodeName": "n1",
            "activeDeadlineSeconds": 60,
            "containers": [{"name": "task", "resources": {"limits": {"memory": "512Mi"}}}],
        },
        "status": {"phase": phase, "containerStatuses": statuses, **status},
    }


def ended(code: int, message: str = "", reason: str = "Error") -> Manifest:
    times = {"startedAt": "2026-01-01T00:00:02Z", "finishedAt": "2026-01-01T00:00:09Z"}
    return {"terminated": {"exitCode": code, "message": message, "reason": reason, **times}}


def told(job: Manifest, *pods: Manifest) -> Run:
    return run_of(job, pods, lambda _text: {})


FAILED = ("Failed", "BackoffLimitExceeded")
SOWING = '{"state": "Running", "message": "sowing"}'
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:02Z"}}


@pytest.mark.parametrize(
    ("shape", "state", "message"),
    [
        (pod("Failed", ended(137, SOWING, "OOMKilled")), RunState.FAILED,
         "killed for want of memory (its limit is 512Mi) while it was at: sowing; give"),
        (pod("Failed", ended(137, SOWING), reason="Evicted", message="disk is full"), RunState.FAILED,
         "its Pod was ended (Evicted): disk is full while it was at: sowing"),
        (pod("Failed", ended(143, SOWING), reason="DeadlineExceeded"), RunState.TIMED_OUT,
         "took longer than 60 s while it was at: sowing"),
        (pod("Failed", ended(128, "exec: no such file", "StartError")), RunState.FAILED,
         "its program could not be started: exec: no such file"),
        (pod("Failed", ended(137)), RunState.FAILED, "exit code 137, and it wrote no result"),
        (pod("Failed", reason="UnexpectedAdmissionError", message="no gpu"), RunState.FAILED,
         "(UnexpectedAdmissionError): no gpu"),
        (pod("Failed"), RunState.FAILED, "its Pod failed before its container ran"),
        (pod("Failed", ended(1, '{"state": "Cancelled", "message": "told to"}')), RunState.CANCELLED,
         "told to"),
    ],
)  # fmt: skip
def test_failures_are_distinguished(shape: Manifest, state: RunState, message: str) -> None:
    run = told(job(FAILED), shape)
    assert (run.state, run.retryable, run.lost) == (state, True, False)
    assert message in run.message


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (pod("Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling x"}}),
         "its image cannot be pulled: Back-off pulling x"),
        (pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), ""),
        (pod("Pending", conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]),
         "it has no node yet: 0/3 nodes"),
    ],
)  # fmt: skip
def test_what_keeps_it_from_running_is_said_while_it_waits(shape: Manifest, message: str) -> None:
    run = told(job(), shape)
    assert (run.state, run.message) == (RunState.CREATED, message)


@pytest.mark.criterion("G-C4")
@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ((), "how it ended is unknown"),
        ((pod("Failed", reason="NodeLost"),), "its Pod was ended (NodeLost)"),
    ],
)
def test_a_pod_that_was_lost_with_its_node_is_a_failure_that_may_go_away(
    pods: Sequence[Manifest], message: str
) -> None:
    """Its inputs are not the cause: no rollout goes back for it."""
    run = told(job(FAILED), *pods)
    assert (run.state, run.retryable, run.lost) == (RunState.FAILED, True, True)
    assert message in run.message


def test_a_success_whose_words_are_lost_is_none() -> None:
    run = told(job(("Complete", "CompletionsReached")))
    assert run.state is RunState.FAILED
    assert "it succeeded, but its Pod was deleted" in run.message


def test_a_job_that_got_no_node_in_time_reports_it() -> None:
    run = told(job(("Failed", "DeadlineExceeded")))
    assert run.state is RunState.TIMED_OUT
    assert "660 s" in run.message


@pytest.mark.parametrize("condition", [FAILED, ("Complete", "CompletionsReached")])
def test_it_is_not_over_while_a_pod_runs(condition: tuple[str, str]) -> None:
    """Before 1.31 a Job is Failed while its Pods still end."""
    leaving = pod("Running", RUNNING)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:08Z"
    run = told(job(condition), leaving)
    assert run.state is RunState.RUNNING
    assert run.message == "its Pod work-1-x on node n1 is being ended"


@pytest.mark.criterion("C-13")
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (job(), "its Job has no Pod yet; `kubectl describe job -n shops work-1` shows why"),
        (job(("Suspended", "JobSuspended")), "its Job is suspended"),
    ],
)
def test_c_13_a_job_without_a_pod_is_not_at_work(shape: Manifest, message: str) -> None:
    run = told(shape)
    assert run.state is RunState.CREATED
    assert run.message.startswith(message)


DEADLINE = ("Failed", "DeadlineExceeded")


@pytest.mark.criterion("C-9")
@pytest.mark.parametrize("conditions", [(), (DEADLINE,), (FAILED,)])
@pytest.mark.parametrize(
    ("shape", "state", "message"),
    [
        (pod("Running", ended(0, '{"message": "made"}')), RunState.SUCCEEDED, "made"),
        (pod("Failed", ended(0, '{"message": "made"}'), reason="DeadlineExceeded"),
         RunState.SUCCEEDED, "made"),
        (pod("Failed", ended(2, '{"state": "Failed", "message": "no zone"}'), reason="Evicted"),
         RunState.FAILED, "no zone"),
        (pod("Running", ended(137, SOWING, "OOMKilled")), RunState.FAILED, "want of memory"),
        (pod("Failed", ended(1, '{"state": "Cancelled"}'), reason="DeadlineExceeded"),
         RunState.TIMED_OUT, "took longer than 60 s"),
    ],
)  # fmt: skip
def test_c_9_the_report_of_the_task_outranks_its_pod_and_its_job(
    conditions: tuple[tuple[str, str], ...], shape: Manifest, state: RunState, message: str
) -> None:
    run = told(job(*conditions), shape)
    assert run.state is state
    assert message in run.message
    assert str(run.finished_at) == "2026-01-01 00:00:09+00:00"


@pytest.mark.criterion("C-9")
def test_c_9_a_success_beside_a_sidecar_outlives_a_cancellation() -> None:
    cancelled = job(DEADLINE, annotations={label_keys.CANCELLED: "now"})
    assert told(cancelled, pod("Running", ended(0, "{}"))).state is RunState.SUCCEEDED
    failed = ended(1, '{"state": "Failed"}')
    assert told(cancelled, pod("Running", failed)).state is RunState.CANCELLED


def test_cancelled_is_distinguished_from_a_deadline() -> None:
    run = told(job(("Failed", "DeadlineExceeded"), annotations={label_keys.CANCELLED: "now"}))
    assert (run.state, run.message) == (RunState.CANCELLED, "cancelled")


def test_a_success_that_a_cancellation_came_too_late_for_is_one() -> None:
    done = pod("Succeeded", ended(0, '{"message": "made"}'))
    run = told(job(("Complete", ""), annotations={label_keys.CANCELLED: "now"}), done)
    assert (run.state, run.message) == (RunState.SUCCEEDED, "made")


def test_one_being_deleted_is_over_once_its_pods_are() -> None:
    leaving = job(deletionTimestamp="2026-01-01T00:00:08Z")
    assert told(leaving, pod("Running", RUNNING)).state is RunState.RUNNING
    assert told(leaving).state is RunState.CANCELLED


def test_times_and_logs() -> None:
    run = told(job(("Complete", "")), pod("Succeeded", ended(0, "{}")))
    assert str(run.created_at) == "2026-01-01 00:00:00+00:00"
    assert str(run.started_at) == "2026-01-01 00:00:02+00:00"
    assert str(run.finished_at) == "2026-01-01 00:00:09+00:00"
    assert run.logs == "kubectl logs -n shops job/work-1 -c task"
