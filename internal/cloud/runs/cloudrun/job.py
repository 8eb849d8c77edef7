"""The Cloud Run job of a run, and how far that is by job, execution and task. No I/O."""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ctrlruntime.api.scalars import time_or_none
from internal.cloud import labels as label_keys
from internal.cloud.runs import wire
from internal.cloud.runs.cloudrun.api import CloudRunOptions
from internal.cloud.runs.files import INPUT, RESULT, SEAL_KEY, SECRETS
from internal.cloud.runs.provider import Run, RunOwner, RunRefused, RunRequest, RunState
from internal.cloud.runs.report import (
    BadReport,
    Ending,
    Report,
    Unseal,
    decode_report,
    ending_of,
    kept_by,
)

__all__ = [
    "CONTAINER",
    "OWNER_LABEL",
    "Seen",
    "check",
    "execution_id",
    "is_ours",
    "is_over",
    "job_id",
    "job_of",
    "run_id_of",
    "run_of",
]

CONTAINER: Final = "task"
OWNER_LABEL: Final = "ctrlruntime-owner-uid"
_RUN_LABEL: Final = "ctrlruntime-run-id"
_TASK_LABEL: Final = "ctrlruntime-task"
_PLACE: Final = "/run/task"
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,39}[a-z0-9])?")
"""Of a run: with the name of its job, it is the name of an execution, which has less than 64 characters."""
_LABEL: Final = re.compile(r"[-_a-z0-9]{1,63}")
_LONGEST: Final = 7 * 86400
_FAILED: Final = "CONDITION_FAILED"
Obj = Mapping[str, Any]


def check(request: RunRequest) -> None:
    """Raise RunRefused for what Cloud Run cannot do."""
    if _NAME.fullmatch(request.run_id) is None:
        raise RunRefused(f"{request.run_id!r} is no name that a Cloud Run job can have")
    if _LABEL.fullmatch(request.input.owner.uid) is None:
        raise RunRefused(
            f"the UID {request.input.owner.uid!r} is no value of a label in Google Cloud"
        )
    if not 1 <= request.timeout <= _LONGEST:
        raise RunRefused(
            f"run {request.run_id} may take {request.timeout:g} s; a Cloud Run task takes 1 s to 7 days"
        )


def job_id(owner_uid: str) -> str:
    """Return the name of the job that all runs of an object share: a region has room for 1,000 jobs."""
    return f"runs-{hashlib.sha256(owner_uid.encode()).hexdigest()[:16]}"


def execution_id(owner_uid: str, run_id: str) -> str:
    """Return the name of the execution of a run."""
    return f"{job_id(owner_uid)}-{run_id}"


def is_ours(found: Obj, owner: RunOwner) -> bool:
    """Whether a job or an execution was made for the owner."""
    return bool((found.get("labels") or {}).get(OWNER_LABEL) == owner.uid)


def run_id_of(execution: Obj, owner: RunOwner) -> str:
    """Return the run that an execution is; empty: of another owner, or one that a person made of the job by hand."""
    run_id = str((execution.get("labels") or {}).get(_RUN_LABEL, ""))
    is_named = str(execution["name"]).rpartition("/")[2] == execution_id(owner.uid, run_id)
    return run_id if is_named and is_ours(execution, owner) else ""


def job_of(request: RunRequest, options: CloudRunOptions) -> dict[str, Any]:
    """Return the job as the run needs it: written so, it makes one execution, of one task, never tried again by itself.

    The token is the run's, so that the same write again makes no other one. What is of the run is in the template,
    of which each execution keeps its own.
    """
    owner = request.input.owner
    template: dict[str, Any] = {
        "containers": [_container(request, options)],
        "maxRetries": 0,
        "timeout": f"{math.ceil(request.timeout)}s",
        "volumes": [{"name": "run", "gcs": {"bucket": options.bucket}}],
    }
    if options.service_account:
        template["serviceAccount"] = options.service_account
    return {
        "labels": {OWNER_LABEL: owner.uid},
        "annotations": {
            label_keys.OWNER: f"{owner.api_version} {owner.kind} {owner.name}",
            label_keys.INSTANCE: request.input.instance,
        },
        "startExecutionToken": request.run_id,
        "template": {
            "labels": {
                OWNER_LABEL: owner.uid,
                _RUN_LABEL: request.run_id,
                _TASK_LABEL: request.input.task,
            },
            "taskCount": 1,
            "parallelism": 1,
            "template": template,
        },
    }


def _container(request: RunRequest, options: CloudRunOptions) -> dict[str, Any]:
    folder = f"{_PLACE}/{request.run_id}"
    environment = {
        wire.INPUT: f"{folder}/{INPUT}",
        wire.SEAL_KEY: f"{folder}/{SEAL_KEY}",
        wire.SECRETS: f"{folder}/{SECRETS}",
        wire.RESULT: f"{folder}/{RESULT}",
        **options.environment,
    }
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": options.image,
        "args": [*options.arguments, request.input.task],
        "env": [{"name": k, "value": v.replace("$(", "$$(")} for k, v in environment.items()],
        "volumeMounts": [{"name": "run", "mountPath": _PLACE}],
    }
    if options.command:
        container["command"] = list(options.command)
    if options.limits:
        container["resources"] = {"limits": dict(options.limits)}
    return container


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read of a run."""

    execution: Obj | None
    job: Obj = field(default_factory=dict)
    """What makes the execution while there is none."""
    attempt: Obj = field(default_factory=dict)
    """Result of the task's last attempt, once there is one."""
    last_words: bytes = b""


def is_over(execution: Obj | None) -> bool:
    """Whether the execution has ended."""
    return execution is not None and bool(execution.get("completionTime"))


def run_of(run_id: str, seen: Seen, unseal: Unseal) -> Run:
    """Return the run. `CREATED` until its execution reports that it runs."""
    execution = seen.execution or {}
    started = time_or_none(execution.get("startTime"))
    running = started is not None or execution.get("runningCount", 0) > 0
    run = Run(
        run_id=run_id,
        state=RunState.RUNNING if running else RunState.CREATED,
        created_at=time_or_none(execution.get("createTime") or seen.job.get("updateTime")),
        started_at=started,
        logs=str(execution.get("logUri", "")),
    )
    if not is_over(execution):
        return _under_way(run, seen)
    ending = _ending(seen, execution, unseal)
    return replace(
        run,
        finished_at=time_or_none(execution["completionTime"]),
        state=ending.state,
        message=ending.message,
        retryable=ending.retryable,
        outputs=ending.outputs or kept_by(seen.last_words),
        secret_outputs=ending.secret_outputs,
        record=ending.record,
    )


def _under_way(run: Run, seen: Seen) -> Run:
    condition = seen.job.get("terminalCondition") or {}
    # While the job is brought to this run's template, its condition is that of the run before.
    stale = seen.execution is not None or seen.job.get("reconciling", False)
    if not stale and condition.get("state") == _FAILED:
        return replace(
            run,
            state=RunState.FAILED,
            finished_at=time_or_none(condition.get("lastTransitionTime")),
            message=f"Cloud Run could not start it: {condition.get('message', '')}",
        )
    words = seen.last_words
    return replace(run, message=_progress(words), outputs=kept_by(words))


def _ending(seen: Seen, execution: Obj, unseal: Unseal) -> Ending:
    if execution.get("succeededCount", 0) > 0:
        return ending_of(0, seen.last_words, unseal)
    if execution.get("cancelledCount", 0) > 0:
        return Ending(state=RunState.CANCELLED, message=_cancelled(seen.last_words))
    status = seen.attempt.get("status") or {}
    code = seen.attempt.get("exitCode")
    if code:
        return ending_of(int(code), seen.last_words, unseal)
    doing = _progress(seen.last_words)
    at = f" while it was at: {doing}" if doing else ""
    timeout = _timeout(execution)
    if timeout and _took(execution) >= timeout:
        message = f"took longer than {timeout:g} s{at}"
        return Ending(state=RunState.TIMED_OUT, message=message)
    message = f"ended by Cloud Run{at}: {status.get('message') or 'it does not say why'}"
    return Ending(state=RunState.FAILED, message=message)


def _cancelled(last_words: bytes) -> str:
    try:
        report = decode_report(last_words)
    except BadReport:
        report = Report()
    return report.message if report.state is RunState.CANCELLED else "cancelled"


def _progress(last_words: bytes) -> str:
    try:
        report = decode_report(last_words)
    except BadReport:
        return ""
    return report.message if report.state is RunState.RUNNING else ""


def _timeout(execution: Obj) -> float:
    text = str((execution.get("template") or {}).get("timeout", "")).removesuffix("s")
    return float(text) if text.replace(".", "", 1).isdecimal() else 0.0


def _took(execution: Obj) -> float:
    started, ended = (time_or_none(execution.get(each)) for each in ("startTime", "completionTime"))
    return 0.0 if started is None or ended is None else (ended - started).total_seconds()
