"""The rules of leases. Pure."""

from datetime import datetime, timedelta
from typing import Final

from apis.cloud import Instance, Phase
from ctrlruntime.api import format_time, is_condition_true
from internal.cloud.ephemeral.features import LeaseUnreadable, is_ephemeral, lease_end, with_lease

FIRST: Final = timedelta(days=2)
"""Of a new instance."""
LONGEST_EXTENSION: Final = timedelta(days=4)
"""At a time."""


class Refused(ValueError):
    """A rule is against it. The message names it, and the remedy."""


def unfinished(instance: Instance) -> str:
    """Why the creation of an instance has not ended; empty once it has."""
    ready = is_condition_true(instance.status.conditions, "Ready")
    if ready or instance.status.version:
        return ""
    return instance.status.message or "creation has not begun yet"


def end_of(instance: Instance) -> datetime:
    """When the lease of an instance ends. Raises Refused for one without a lease."""
    name, features = instance.metadata.name, instance.spec.instance_features
    if not is_ephemeral(features):
        raise Refused(f"{name} is not ephemeral: it has no lease")
    try:
        end = lease_end(features)
    except LeaseUnreadable as error:
        raise Refused(f"{name}: {error}") from error
    if end is None:
        raise Refused(f"{name} has no lease time; delete it and deploy it again")
    return end


def check(instance: Instance, now: datetime) -> datetime:
    """Return the end of a lease that may be changed. Raises Refused."""
    end, name = end_of(instance), instance.metadata.name
    if instance.metadata.deletion_timestamp is not None or now >= end:
        raise Refused(
            f"the lease of {name} ended at {format_time(end)}: deploy it again once it is gone"
        )
    reason = unfinished(instance)
    if reason:
        raise Refused(f"{name} is not completed yet ({reason}): wait until it is")
    return end


def extended(instance: Instance, by: timedelta, now: datetime) -> datetime:
    """Return the new end of a lease that is extended. Raises Refused."""
    if not timedelta(0) < by <= LONGEST_EXTENSION:
        raise Refused(f"a lease is extended by {LONGEST_EXTENSION.days} days at a time at most")
    return check(instance, now) + by


def reduced(instance: Instance, by: timedelta, now: datetime) -> datetime:
    """Return the new end of a lease that is reduced, which may be now. Raises Refused."""
    if by <= timedelta(0):
        raise Refused("say by how much the lease is to be reduced")
    return max(now, check(instance, now) - by)


def expired_now(instance: Instance, now: datetime) -> datetime:
    """Return the new end of a lease that ends at once. Raises Refused."""
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
