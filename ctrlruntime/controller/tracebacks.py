"""Tracebacks of failed reconciles: of unexpected exceptions, and once until the exception changes."""

from __future__ import annotations

import re
import traceback
from collections.abc import Hashable

from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.controller.aggregate_error import TransientError, UnrecoverableError, is_transient
from ctrlruntime.controller.reconcile import ReconcileError, TerminalError

MAX_FRAMES = 50
"""Innermost frames written for each exception of a chain."""

_MAX_CHAIN = 10
_MAX_MESSAGE = 500
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+", re.IGNORECASE)
_EXPECTED = (TerminalError, ReconcileError, TransientError, UnrecoverableError, TransportError)

_Fingerprint = tuple[tuple[str, str, str, int], ...]


class Tracebacks:
    """Decides which failures of a controller are logged with a traceback."""

    def __init__(self) -> None:
        self._last: dict[Hashable, _Fingerprint] = {}

    def report(self, request: Hashable, error: BaseException) -> str | None:
        """Return the traceback of ``error``, without local variables.

        None for an expected error, and for the exception that the last failure of ``request`` had: the
        same type, place and message, numbers and UUIDs in it aside.
        """
        if is_expected(error):
            self.forget(request)
            return None
        fingerprint = _fingerprint(error)
        if self._last.get(request) == fingerprint:
            return None
        self._last[request] = fingerprint
        return format_traceback(error)

    def forget(self, request: Hashable) -> None:
        """Clear what is kept of ``request``, whose next failure is a new one."""
        if self._last:  # seldom: no hash of the request where nothing fails
            self._last.pop(request, None)


def is_expected(error: BaseException) -> bool:
    """Return whether the message of an error is enough: raised as a verdict, or an answer that retries resolve."""
    return isinstance(error, _EXPECTED) or (isinstance(error, APIError) and is_transient(error))


def format_traceback(error: BaseException) -> str:
    """Return the traceback of an exception and its causes, without local variables."""
    lines = traceback.TracebackException.from_exception(
        error, limit=-MAX_FRAMES, capture_locals=False, compact=True
    ).format()
    return "".join(lines).rstrip()


def _fingerprint(error: BaseException) -> _Fingerprint:
    found: list[tuple[str, str, str, int]] = []
    pending: list[BaseException] = [error]
    while pending and len(found) < _MAX_CHAIN:
        each = pending.pop(0)
        file, line = _raised_at(each)
        message = _VARYING.sub("#", str(each)[:_MAX_MESSAGE])
        found.append((type(each).__qualname__, message, file, line))
        if isinstance(each, BaseExceptionGroup):
            pending += each.exceptions
        cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if cause is not None:
            pending.append(cause)
    return tuple(found)


def _raised_at(error: BaseException) -> tuple[str, int]:
    """Return file and line of the innermost frame."""
    place = error.__traceback__
    if place is None:
        return "", 0
    while place.tb_next is not None:
        place = place.tb_next
    return place.tb_frame.f_code.co_filename, place.tb_lineno
