"""The lock of a state: which events of a command prove that it holds it, and who has it where it is refused. Pure but for `holder`."""

import os
import pwd
import re
import socket
from typing import Final

import orjson

from internal.cloud.tasks.task import LOCK_INFO, TaskError

WITH_LOCK: Final = frozenset(
    {
        "refresh_start",
        "refresh_complete",
        "resource_drift",
        "planned_change",
        "apply_start",
        "apply_progress",
        "apply_complete",
        "apply_errored",
        "provision_start",
        "provision_progress",
        "provision_complete",
        "provision_errored",
    }
)
"""Events that a command reports only while it holds the lock."""
_REFUSED: Final = "Error acquiring the state lock"
_FIELD: Final = re.compile(r"^\s*(ID|Who|Operation|Created):\s*(.*?)\s*$", re.MULTILINE)
_TIME: Final = re.compile(r"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d{1,6})?\d* ([+-]\d{4})")


class StateLocked(TaskError):
    """The state is locked by another holder; the report has what the lock is."""

    def __init__(self, message: str, info: dict[str, str]) -> None:
        super().__init__(message)
        self.outputs = {LOCK_INFO: orjson.dumps(info).decode()}


def failure(message: str) -> TaskError:
    """Return the error of a command that failed with a text: StateLocked where it was refused for the lock."""
    if _REFUSED not in message:
        return TaskError(message)
    found = {name.lower(): value for name, value in _FIELD.findall(message)}
    return StateLocked(message, {**found, "created": _rfc3339(found.get("created", ""))})


def _rfc3339(text: str) -> str:
    """Return a time as Go writes it, as RFC 3339; another text as it is."""
    match = _TIME.match(text)
    if match is None:
        return text
    date, time, fraction, zone = match.groups()
    return f"{date}T{time}{fraction or ''}{zone[:3]}:{zone[3:]}"


def holder() -> str:
    """Return the holder that a lock of a command of this process names: user and host, as Go finds them."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = os.environ.get("USER", "")
    return f"{user}@{socket.gethostname()}"
