"""The Cloud Run job of a run, and how far that is by job, execution and task. No I/O."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from internal.cloud import labels as label_keys
from internal.cloud.runs import wire
from internal.cloud.runs.cloudrun.api import INPUT, RESULT, SEAL_KEY, SECRETS, CloudRunOptions
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
    "EXECUTION_TOKEN",
    "OWNER_LABEL",
    "Seen",
    "check",
    "is_ours",
    "is_over",
    "job_of",
    "run_of",
]

CONTAINER: Final = "task"
EXECUTION_TOKEN: Final = "once"  # noqa: S105
"""End of the name of the one execution: made with the job, in one request."""
OWNER_LABEL: Final = "ctrlruntime-owner-uid"
_RUN_LABEL: Final = "ctrlruntime-run-id"
_TASK_LABEL: Final = "ctrlruntime-task"
_PLACE: Final = "/run/task"
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,47}[a-z0-9])?")
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


def is_ours(job: dict[str, Any], owner: RunOwner, run_id: str) -> bool:
    """Whether a run of the owner made it."""
    labels = job.get("labels") or {}
    return labels.get(OWNER_LABEL) == owner.uid and labels.get(_RUN_LABEL) == run_id


def job_of(request: RunRequest, options: CloudRunOptions) -> dict[str, Any]:
    """Return a job whose only execution is made with it: one task, never tried again by itself."""
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
        "labels": {
            OWNER_LABEL: owner.uid,
            _RUN_LABEL: request.run_id,
            _TASK_LABEL: request.input.task,
        },
        "annotations": {
            label_keys.OWNER: f"{owner.api_version} {owner.kind} {owner.name}",
            label_keys.INSTANCE: request.input.instance,
        },
        "startExecutionToken": EXECUTION_TOKEN,
        "template": {"taskCount": 1, "parallelism": 1, "template": template},
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

    job: Obj
    execution: Obj | None
    attempt: Obj
    """Result of the task's last attempt, once there is one."""
    last_words: bytes = b""


def is_over(execution: Obj | None) -> bool:
    """Whether the execution has ended."""
    return execution is not None and bool(execution.get("completionTime"))


def run_of(run_id: str, seen: Seen, unseal: Unseal) -> Run:
    """Return the run. `CREATED` until its execution reports that it runs."""
    execution = seen.execution or {}
    started = _moment(execution.get("startTime"))
    running = started is not None or execution.get("runningCount", 0) > 0
    run = Run(
        run_id=run_id,
        state=RunState.RUNNING if running else RunState.CREATED,
        created_at=_moment(seen.job.get("createTime")),
        started_at=started,
        logs=str(execution.get("logUri", "")),
    )
    if not is_over(execution):
        return _under_way(run, seen)
    ending = _ending(seen, execution, unseal)
    return replace(
        run,
        finished_at=_moment(execution["completionTime"]),
        state=ending.state,
        message=ending.message,
        retryable=ending.retryable,
        outputs=ending.outputs or kept_by(seen.last_words),
        secret_outputs=ending.secret_outputs,
        record=ending.record,
    )


def _under_way(run: Run, seen: Seen) -> Run:
    condition = seen.job.get("terminalCondition") or {}
    if seen.execution is None and condition.get("state") == _FAILED:
        return replace(
            run,
            state=RunState.FAILED,
            finished_at=_moment(condition.get("lastTransitionTime")),
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
    started, ended = _moment(execution.get("startTime")), _moment(execution.get("completionTime"))
    return 0.0 if started is None or ended is None else (ended - started).total_seconds()


def _moment(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None
