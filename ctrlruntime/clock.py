"""The time of day; what needs another takes a function of the same form."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the time of day in UTC."""
    return datetime.now(UTC)
