"""The failures of a data source, separated by their remedy.

Messages are written here, not taken from a driver, and never hold a password or a row's value.
"""

from __future__ import annotations

from typing import ClassVar


class SourceError(Exception):
    """A query did not succeed. `reason` is one CamelCase word for a condition."""

    reason: ClassVar[str] = "QueryFailed"


class Unreachable(SourceError):
    """No connection, or it was lost."""

    reason = "DatabaseUnreachable"


class TimedOut(SourceError):
    """The database did not answer in time."""

    reason = "DatabaseTimeout"


class AccessDenied(SourceError):
    """Wrong user or password, or a missing privilege."""

    reason = "AccessDenied"


class UnknownTable(SourceError):
    """The table, view or database does not exist."""

    reason = "UnknownTable"


class UnknownColumn(SourceError):
    """A mapped column does not exist."""

    reason = "UnknownColumn"


class InsecureConnection(SourceError):
    """TLS was asked for and could not be had, or the certificate is not accepted."""

    reason = "TLSFailed"


class NotAllowed(SourceError):
    """The manager's options do not allow this source."""

    reason = "SourceNotAllowed"


class ValueTooLarge(SourceError):
    """A value is larger than what is read into memory."""

    reason = "ValueTooLarge"


class ReplicaBehind(SourceError):
    """A replica has older rows than were read before, from another server or by another query."""

    reason = "ReplicaBehind"
