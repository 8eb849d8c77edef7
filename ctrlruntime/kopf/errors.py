"""How a handler fails: for now, for good, or without effect."""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = [
    "AdmissionError",
    "ErrorsMode",
    "HandlerRetriesError",
    "HandlerTimeoutError",
    "NotOffered",
    "PermanentError",
    "TemporaryError",
]

BACKOFF: Final = 60.0
"""Seconds until a handler is called again after an error that names no delay, as in kopf."""


class TemporaryError(Exception):
    """The handler is called again after `delay` seconds; None is at once."""

    def __init__(self, message: str = "", delay: float | None = BACKOFF) -> None:
        super().__init__(message)
        self.delay = delay


class PermanentError(Exception):
    """The handler has failed, and is not called again for this cause."""


class HandlerTimeoutError(PermanentError):
    """The handler did not succeed within its `timeout`, counted from the first attempt."""


class HandlerRetriesError(PermanentError):
    """The handler did not succeed in as many attempts as its `retries`."""


class AdmissionError(PermanentError):
    """The request is denied, with this message and HTTP status."""

    def __init__(self, message: str = "", code: int = 500) -> None:
        super().__init__(message)
        self.code = code


class NotOffered(NotImplementedError):
    """A part of kopf that this package does not have. The message names what serves instead."""


class ErrorsMode(Enum):
    """What an error other than those above means."""

    IGNORED = "ignored"
    """It is logged, and the handler counts as done."""
    TEMPORARY = "temporary"
    """The handler is called again after its `backoff`."""
    PERMANENT = "permanent"
    """The handler has failed."""
