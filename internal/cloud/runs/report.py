"""What a run reports when it ends, and while it is under way: one small JSON document.

It has to fit into the termination message of a container, of which a kubelet keeps 4096 bytes. Of a
longer one the kubelet would keep the last bytes, which are no JSON; so nothing longer is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import orjson

from internal.cloud.runs.provider import RunState

__all__ = ["LIMIT", "BadReport", "Report", "ReportTooLong", "decode_report", "encode_report"]

LIMIT: Final = 4096
"""Bytes of a report."""
_CUT: Final = " …"


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
