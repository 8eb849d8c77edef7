"""How a run ended, from the exit code of its process and its last words. No I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from internal.cloud.runs.provider import RunState
from internal.cloud.runs.report import BadReport, Report, decode_report
from internal.cloud.runs.sealing import CannotOpen

__all__ = ["REJECTED", "Ending", "Unseal", "ending_of"]

REJECTED = 2
"""Exit code of a task that need not be tried again with the same inputs."""

Unseal = Callable[[str], Mapping[str, str]]
"""Opens sealed outputs. Raises CannotOpen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The part of a run that is known once it has ended."""

    state: RunState
    message: str = ""
    retryable: bool = True
    outputs: Mapping[str, str] = field(default_factory=dict)
    secret_outputs: Mapping[str, str] = field(default_factory=dict, repr=False)


def ending_of(code: int, last_words: bytes, unseal: Unseal) -> Ending:
    """Success takes both: exit code 0, and a report of success."""
    try:
        report = decode_report(last_words)
    except BadReport as error:
        return _speechless(code, last_words, error)
    if code == 0:
        return _success(report, unseal)
    if report.state is RunState.CANCELLED:
        return Ending(state=RunState.CANCELLED, message=report.message or "cancelled")
    retryable = code != REJECTED and report.retryable
    return Ending(state=RunState.FAILED, message=_failure(code, report), retryable=retryable)


def _success(report: Report, unseal: Unseal) -> Ending:
    if report.state is not RunState.SUCCEEDED:
        message = f"ended with exit code 0 but reported {report.state}: {report.message}"
        return Ending(state=RunState.FAILED, message=message)
    try:
        secrets = unseal(report.sealed) if report.sealed else {}
    except CannotOpen as error:
        return Ending(state=RunState.FAILED, message=str(error))
    return Ending(
        state=RunState.SUCCEEDED,
        message=report.message,
        outputs=dict(report.outputs),
        secret_outputs=secrets,
    )


def _failure(code: int, report: Report) -> str:
    if report.state is RunState.RUNNING:
        doing = f" while it was at: {report.message}" if report.message else ""
        return f"ended without a report, exit code {code}{doing}"
    return report.message or f"ended with exit code {code}"


def _speechless(code: int, last_words: bytes, error: BadReport) -> Ending:
    said = f"its result cannot be read ({error})" if last_words else "it wrote no result"
    return Ending(
        state=RunState.FAILED,
        message=f"ended with exit code {code}, and {said}; its logs may tell why",
        retryable=code != REJECTED,
    )
