"""What a run reports: one small JSON document; and how it ended, by that and its exit code. No I/O.

The report has to fit into the termination message of a container, of which a kubelet keeps 4096 bytes. Of
a longer one the kubelet would keep the last bytes, which are no JSON; so nothing longer is written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import orjson

from internal.cloud.runs.provider import RunState
from internal.cloud.runs.sealing import CannotOpen

__all__ = [
    "LARGEST",
    "LIMIT",
    "REJECTED",
    "BadReport",
    "Ending",
    "Report",
    "ReportTooLong",
    "Unseal",
    "decode_report",
    "encode_report",
    "ending_of",
    "kept_by",
]

LIMIT: Final = 4096
"""Bytes of a report."""
LARGEST: Final = 256 * 1024
"""Bytes that are read of what a run left as its report: a run may write what it likes, and a larger one is none."""
_CUT: Final = " …"
REJECTED = 2
"""Exit code of a task that need not be tried again with the same inputs."""
Unseal = Callable[[str], Mapping[str, str]]
"""Opens sealed outputs. Raises CannotOpen."""


class BadReport(ValueError):
    """Not a report: cut off, or written by something else."""


class ReportTooLong(ValueError):
    """Outputs that do not fit, however short the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run in its own words."""

    state: RunState = RunState.SUCCEEDED
    """Running, while `message` is what it is doing; later how it ended."""
    message: str = ""
    retryable: bool = True
    """Of a failure: whether another attempt may succeed."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    sealed: str = ""
    """The outputs that must not be seen, sealed with the key of the run."""
    record: Mapping[str, str] = field(default_factory=dict)
    """What identifies what the task left behind."""


def encode_report(report: Report, limit: int = LIMIT) -> bytes:
    """JSON of at most `limit` bytes. A message that is too long is cut; outputs never are.

    Raises ReportTooLong.
    """
    report = replace(report, message=_text(report.message))
    data = _dump(report)
    if len(data) <= limit:
        return data
    shortest = len(_dump(replace(report, message="")))
    if shortest > limit:
        raise ReportTooLong(_too_long(report, limit))
    low, high = 0, len(report.message)
    while low < high:  # the most characters that fit: how long one is depends on how JSON writes it
        middle = (low + high + 1) // 2
        if len(_dump(replace(report, message=report.message[:middle] + _CUT))) <= limit:
            low = middle
        else:
            high = middle - 1
    cut = replace(report, message=report.message[:low] + _CUT if low else "")
    return _dump(cut)


def decode_report(data: bytes) -> Report:
    """Raise BadReport."""
    if len(data) > LARGEST:
        raise BadReport(f"it has more than {LARGEST // 1024} KiB")
    try:
        return msgspec.json.decode(data, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadReport(str(error)) from error


def _dump(report: Report) -> bytes:
    return orjson.dumps(report)


def _text(message: str) -> str:
    """Without what UTF-8 cannot hold."""
    return message.encode("utf-8", "replace").decode()


def _too_long(report: Report, limit: int) -> str:
    plain = len(orjson.dumps(report.outputs))
    return (
        f"the outputs take {plain} bytes and the secret ones {len(report.sealed)} (compressed and "
        f"sealed); together with {_frame()} bytes around them only {limit} can be handed over. Put "
        "what is large where its users can fetch it, and hand over the place"
    )


def _frame() -> int:
    return len(_dump(Report())) - len("{}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The part of a run that is known once it has ended."""

    state: RunState
    message: str = ""
    retryable: bool = True
    lost: bool = False
    outputs: Mapping[str, str] = field(default_factory=dict)
    secret_outputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    record: Mapping[str, str] = field(default_factory=dict)


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
        record=dict(report.record),
    )


def kept_by(last_words: bytes) -> dict[str, str]:
    """Return what a run that is under way, or ended without success, has kept in its report."""
    try:
        report = decode_report(last_words)
    except BadReport:
        return {}
    return {} if report.state is RunState.SUCCEEDED else dict(report.outputs)


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
