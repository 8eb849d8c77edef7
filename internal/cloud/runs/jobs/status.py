"""How far a run is, read from its Job and its Pods. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.scalars import time_or_none
from internal.cloud import labels as label_keys
from internal.cloud.runs.jobs.manifest import CONTAINER
from internal.cloud.runs.provider import Run, RunState
from internal.cloud.runs.report import (
    BadReport,
    Ending,
    Report,
    Unseal,
    decode_report,
    ending_of,
    kept_by,
)

__all__ = ["finished_by_now", "is_over", "is_sealed", "is_suspended", "run_of"]

_ENDED: Final = ("Succeeded", "Failed")
_NOT_STARTED: Final = ("ContainerCannotRun", "StartError")
"""Reasons of a container that ended before its program began; the message is the runtime's."""
_STUCK: Final = {
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "InvalidImageName": "the name of its image is none",
    "CreateContainerConfigError": "its container lacks something",
    "CreateContainerError": "its container cannot be made",
    "RunContainerError": "its container cannot be run",
}
_NODE_LOST: Final = frozenset({"NodeLost", "NodeShutdown", "Shutdown", "Terminated"})
"""Reasons of Pods that were ended with their node."""


def run_of(job: Manifest, pods: Sequence[Manifest], unseal: Unseal, refusal: str = "") -> Run:
    """Return the run of a Job; `pods` are those of the Job, `refusal` is why it got none, in the server's words.

    It is over only when the task runs in none of its Pods: some releases report a Job as over while Pods still end, and
    a sidecar keeps a Pod running whose task has ended. What the task reported outranks both.
    """
    metadata = job["metadata"]
    pod = _newest(pods)
    started = _started(pod)
    run = Run(
        run_id=metadata["name"],
        state=RunState.CREATED if started is None else RunState.RUNNING,
        created_at=time_or_none(metadata.get("creationTimestamp")),
        started_at=started,
        logs=f"kubectl logs -n {metadata['namespace']} job/{metadata['name']} -c {CONTAINER}",
    )
    if not is_over(job, pods):
        return replace(run, message=_trouble(job, pod, refusal))
    ending = _ending(job, pod, unseal)
    return replace(
        run,
        finished_at=_finished(job, pod),
        state=ending.state,
        message=ending.message,
        retryable=ending.retryable,
        lost=ending.lost,
        outputs=ending.outputs or kept_by(b"" if pod is None else _last_words(pod)),
        secret_outputs=ending.secret_outputs,
        record=ending.record,
    )


def finished_by_now(job: Manifest) -> bool:
    """Whether the Job itself is done, whatever its Pods are at."""
    return _condition(job, "Complete") is not None or _condition(job, "Failed") is not None


def is_over(job: Manifest, pods: Sequence[Manifest]) -> bool:
    """Whether nothing of the run goes on: its container is not started again, whatever runs beside it."""
    if any(_phase(pod) not in _ENDED and _terminated(pod) is None for pod in pods):
        return False
    ended = any(_terminated(pod) is not None for pod in pods)
    return ended or finished_by_now(job) or "deletionTimestamp" in job["metadata"]


def is_sealed(pods: Sequence[Manifest]) -> bool:
    """Whether the key of the run is needed to tell what it handed over."""
    pod = _newest(pods)
    report = None if pod is None else _report(pod)
    return report is not None and bool(report.sealed)


def _ending(job: Manifest, pod: Manifest | None, unseal: Unseal) -> Ending:
    cancelled = label_keys.CANCELLED in (job["metadata"].get("annotations") or {})
    if _condition(job, "Complete") is not None:
        return _success(pod, unseal)
    ended = None if pod is None else _terminated(pod)
    if pod is not None and ended is not None and _is_final(pod):
        own = ending_of(int(ended["exitCode"]), _last_words(pod), unseal)
        if own.state is RunState.SUCCEEDED or not cancelled:
            return own
    failed = _condition(job, "Failed")
    if cancelled and (failed is not None or ended is not None):
        return Ending(state=RunState.CANCELLED, message="cancelled")
    if failed is None and pod is None:
        return Ending(state=RunState.CANCELLED, message="its Job is being deleted")
    if failed is not None and failed.get("reason") == "DeadlineExceeded" and ended is None:
        allowed = job["spec"].get("activeDeadlineSeconds")
        message = f"its Pod had not ended {allowed} s after its Job began; maybe it got no node"
        return Ending(state=RunState.TIMED_OUT, message=message)
    if pod is None:
        message = (
            "its Pod is gone, and how it ended is unknown: it was deleted, or its node is lost"
        )
        return Ending(state=RunState.FAILED, message=message, lost=True)
    return _failure(pod, unseal)


def _is_final(pod: Manifest) -> bool:
    """Whether the task reported how it ended by itself; who cancelled it is not the task's to know."""
    report = _report(pod)
    return report is not None and report.state in (RunState.SUCCEEDED, RunState.FAILED)


def _report(pod: Manifest) -> Report | None:
    try:
        return decode_report(_last_words(pod))
    except BadReport:
        return None


def _success(pod: Manifest | None, unseal: Unseal) -> Ending:
    if pod is None:
        message = "it succeeded, but its Pod was deleted, and with it what it handed over"
        return Ending(state=RunState.FAILED, message=message)
    return ending_of(0, _last_words(pod), unseal)


def _failure(pod: Manifest, unseal: Unseal) -> Ending:
    status = pod.get("status") or {}
    ended = _terminated(pod)
    doing = _doing(pod)
    if status.get("reason") == "DeadlineExceeded":
        seconds = pod["spec"].get("activeDeadlineSeconds")
        return Ending(state=RunState.TIMED_OUT, message=f"took longer than {seconds} s{doing}")
    if status.get("reason"):
        message = f"its Pod was ended ({status['reason']}): {status.get('message', '')}{doing}"
        lost = status["reason"] in _NODE_LOST
        return Ending(state=RunState.FAILED, message=message, lost=lost)
    if ended is None:
        return Ending(state=RunState.FAILED, message="its Pod failed before its container ran")
    if ended.get("reason") == "OOMKilled":
        message = f"killed for want of memory{_memory(pod)}{doing}; give the runs more of it"
        return Ending(state=RunState.FAILED, message=message)
    if ended.get("reason") in _NOT_STARTED:
        message = f"its program could not be started: {ended.get('message', '')}"
        return Ending(state=RunState.FAILED, message=message)
    return ending_of(int(ended["exitCode"]), _last_words(pod), unseal)


def is_suspended(job: Manifest) -> bool:
    """Whether a person, or a queue of Jobs, holds the Job."""
    return _condition(job, "Suspended") is not None


def _trouble(job: Manifest, pod: Manifest | None, refusal: str) -> str:
    """Why it does not run, if something is in its way."""
    if pod is None and is_suspended(job):
        return "its Job is suspended (spec.suspend, which a queue of Jobs may set)"
    if pod is None and refusal:
        return f"its Pod cannot be created: {refusal}"
    if pod is None:
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        return f"its Job has no Pod yet; `kubectl describe job -n {namespace} {name}` shows why"
    if "deletionTimestamp" in pod["metadata"]:
        node = pod["spec"].get("nodeName")
        where = f" on node {node}" if node else ""
        return f"its Pod {pod['metadata'].get('name', '')}{where} is being ended"
    waiting = (_container(pod).get("state") or {}).get("waiting") or {}
    if waiting.get("reason") in _STUCK:
        return f"{_STUCK[waiting['reason']]}: {waiting.get('message') or waiting['reason']}"
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"it has no node yet: {condition.get('message', '')}"
    return ""


def _newest(pods: Sequence[Manifest]) -> Manifest | None:
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)


def _phase(pod: Manifest) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _container(pod: Manifest) -> Mapping[str, Any]:
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if status["name"] == CONTAINER:
            found: Mapping[str, Any] = status
            return found
    return {}


def _terminated(pod: Manifest) -> Mapping[str, Any] | None:
    ended: Mapping[str, Any] | None = (_container(pod).get("state") or {}).get("terminated")
    return ended


def _last_words(pod: Manifest) -> bytes:
    return str((_terminated(pod) or {}).get("message") or "").encode()


def _doing(pod: Manifest) -> str:
    """Return what it was at when it was killed."""
    report = _report(pod) or Report()
    return f" while it was at: {report.message}" if report.state is RunState.RUNNING else ""


def _memory(pod: Manifest) -> str:
    for container in pod["spec"].get("containers", []):
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        if container["name"] == CONTAINER and limit:
            return f" (its limit is {limit})"
    return ""


def _started(pod: Manifest | None) -> datetime | None:
    if pod is None:
        return None
    state = _container(pod).get("state") or {}
    running = state.get("running") or state.get("terminated") or {}
    return time_or_none(running.get("startedAt"))


def _finished(job: Manifest, pod: Manifest | None) -> datetime | None:
    ended = None if pod is None else _terminated(pod)
    if ended is not None and ended.get("finishedAt"):
        return time_or_none(ended["finishedAt"])
    over = _condition(job, "Complete") or _condition(job, "Failed") or {}
    return time_or_none(over.get("lastTransitionTime"))


def _condition(job: Manifest, type_: str) -> Mapping[str, Any] | None:
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition["type"] == type_ and condition["status"] == "True":
            found: Mapping[str, Any] = condition
            return found
    return None
