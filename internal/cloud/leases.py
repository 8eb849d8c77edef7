"""Leases of ephemeral instances: the features that hold one, the rules of changing it, and what its end means. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from apis.cloud import Instance, Phase
from ctrlruntime.api import format_time, is_condition_true

EPHEMERAL: Final = "ephemeral_instance"
"""Feature: "true" for an instance with a lease."""
LEASE_TIME: Final = "ephemeral_instance_lease_time"
"""Feature: when the lease ends, in seconds since 1970."""
LEASE_FEATURES: Final = frozenset({EPHEMERAL, LEASE_TIME})
"""No input of any task: a longer lease changes nothing but the end."""
FIRST: Final = timedelta(days=2)
"""The lease of a new instance."""
LONGEST_EXTENSION: Final = timedelta(days=4)
"""The longest that a lease is extended by at a time."""


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


class LeaseRefused(ValueError):
    """A rule is against it. The message names it, and the remedy."""


def unfinished(instance: Instance) -> str:
    """Why the creation of an instance has not ended; empty once it has."""
    ready = is_condition_true(instance.status.conditions, "Ready")
    if ready or instance.status.version:
        return ""
    return instance.status.message or "creation has not begun yet"


def end_of(instance: Instance) -> datetime:
    """When the lease of an instance ends. Raises LeaseRefused for one without a lease."""
    name, features = instance.metadata.name, instance.spec.instance_features
    if not is_ephemeral(features):
        raise LeaseRefused(f"{name} is not ephemeral: it has no lease")
    try:
        end = lease_end(features)
    except LeaseUnreadable as error:
        raise LeaseRefused(f"{name}: {error}") from error
    if end is None:
        raise LeaseRefused(f"{name} has no lease time; delete it and deploy it again")
    return end


def check(instance: Instance, now: datetime) -> datetime:
    """Return the end of a lease that may be changed. Raises LeaseRefused."""
    end, name = end_of(instance), instance.metadata.name
    if instance.metadata.deletion_timestamp is not None or now >= end:
        raise LeaseRefused(
            f"the lease of {name} ended at {format_time(end)}: deploy it again once it is gone"
        )
    reason = unfinished(instance)
    if reason:
        raise LeaseRefused(f"{name} is not completed yet ({reason}): wait until it is")
    return end


def extended(instance: Instance, by: timedelta, now: datetime) -> datetime:
    """Return the new end of a lease that is extended. Raises LeaseRefused."""
    if not timedelta(0) < by <= LONGEST_EXTENSION:
        raise LeaseRefused(
            f"a lease is extended by {LONGEST_EXTENSION.days} days at a time at most"
        )
    return check(instance, now) + by


def reduced(instance: Instance, by: timedelta, now: datetime) -> datetime:
    """Return the new end of a lease that is reduced, which may be now. Raises LeaseRefused."""
    if by <= timedelta(0):
        raise LeaseRefused("say by how much the lease is to be reduced")
    return max(now, check(instance, now) - by)


def expired_now(instance: Instance, now: datetime) -> datetime:
    """Return the new end of a lease that ends at once. Raises LeaseRefused."""
    check(instance, now)
    return now


def leased(instance: Instance, end: datetime) -> dict[str, str]:
    """Return the features of an instance with another end of its lease."""
    return with_lease(instance.spec.instance_features, end)


def state_of(instance: Instance) -> str:
    """OK, PROGRESSING or FAILED, with a reason where there is one."""
    status = instance.status
    if status.phase is Phase.FAILED:
        return f"FAILED: {status.message}"
    if status.phase is Phase.READY:
        return "OK"
    return f"PROGRESSING: {status.message or 'creation has not begun yet'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Where the lease stands now."""

    delete: bool = False
    """The instance has to go."""
    look_again: float | None = None
    """Seconds until it ends."""
    message: str = ""
    """What people should know and do."""


def lease_of(instance: Instance, now: datetime) -> Lease:
    """Return the lease of an instance; one without is never touched."""
    spec = instance.spec
    if not is_ephemeral(spec.instance_features):
        return Lease()
    try:
        end = lease_end(spec.instance_features)
    except LeaseUnreadable as error:
        return Lease(message=f"The lease cannot be read, so it never ends. {error}.")
    if end is None:
        return Lease()
    if now < end:
        return Lease(look_again=(end - now).total_seconds())
    if spec.protected:
        return Lease(
            message=(
                f"The lease ended at {format_time(end)}, but deletion protection is on. Set "
                "spec.deletionProtection to false (it wins over spec.debug.enableDeletionProtection) to let it go, or extend the lease "
                "by hand."
            )
        )
    return Lease(delete=True)
