"""What the end of its lease means for an instance. Pure."""

from dataclasses import dataclass
from datetime import datetime

from apis.cloud import Instance
from ctrlruntime.api import format_time
from internal.cloud.ephemeral.features import LeaseUnreadable, is_ephemeral, lease_end


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
    if spec.debug.enable_deletion_protection:
        return Lease(
            message=(
                f"The lease ended at {format_time(end)}, but deletion protection is on. Set "
                "spec.debug.enableDeletionProtection to false to let it go, or extend the lease "
                "by hand."
            )
        )
    return Lease(delete=True)
