"""How far a run is, read from its job, its execution and its task. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from internal.cloud.runs.provider import Run, RunState
from internal.cloud.runs.report import BadReport, Ending, Report, Unseal, decode_report, ending_of

__all__ = ["Seen", "is_over", "run_of"]

_FAILED: Final = "CONDITION_FAILED"

Obj = Mapping[str, Any]


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
        outputs=ending.outputs,
        secret_outputs=ending.secret_outputs,
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
    return replace(run, message=_progress(seen.last_words))


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
