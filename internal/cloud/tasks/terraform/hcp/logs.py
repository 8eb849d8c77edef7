"""The end of a log, for people. Pure."""

import re
from typing import Final

from internal.cloud.tasks.terraform.events import error_of, event_of

_COLORS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x02\x03]")
_LINES: Final = 8
_MOST: Final = 1200


def tail(log: bytes) -> str:
    """The errors of a log of JSON lines, or else the last lines that say something."""
    lines = [_COLORS.sub("", line).rstrip() for line in log.decode("utf-8", "replace").splitlines()]
    events = [event for event in map(event_of, lines) if event is not None]
    errors = [text for text in map(error_of, events) if text]
    if errors:
        return _last(errors)
    if events:
        lines = [str(event.get("@message", "")) for event in events]
    return _last([line for line in lines if line.strip(" │╷╵")])


def _last(lines: list[str]) -> str:
    text = "\n".join(lines[-_LINES:])
    return text if len(text) <= _MOST else "…" + text[-_MOST:]
