"""The features of an instance that only lives for a while. One place spells their keys."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

EPHEMERAL: Final = "ephemeral_instance"
"""Feature: "true" for an instance with a lease."""
LEASE_TIME: Final = "ephemeral_instance_lease_time"
"""Feature: when the lease ends, in seconds since 1970."""
LEASE_FEATURES: Final = frozenset({EPHEMERAL, LEASE_TIME})
"""No input of any task: a longer lease changes nothing but the end."""


class LeaseUnreadable(ValueError):
    """The feature of the lease is no time. The message shows a valid one."""


def is_ephemeral(features: Mapping[str, str]) -> bool:
    """Whether the instance has a lease."""
    return features.get(EPHEMERAL, "").lower() == "true"


def lease_end(features: Mapping[str, str]) -> datetime | None:
    """When the lease ends; None if none is given. Raises LeaseUnreadable."""
    text = features.get(LEASE_TIME, "")
    if not text:
        return None
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError):
        message = f"{LEASE_TIME}: {text!r} is not a number of seconds since 1970, as 1767225600 is"
        raise LeaseUnreadable(message) from None


def with_lease(features: Mapping[str, str], end: datetime) -> dict[str, str]:
    """Return the features of an ephemeral instance whose lease ends then."""
    return {**features, EPHEMERAL: "true", LEASE_TIME: str(int(end.timestamp()))}
