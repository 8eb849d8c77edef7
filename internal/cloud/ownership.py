"""Whether a subresource belongs to an Instance that exists. Pure."""

from typing import Any, Final

from apis.cloud import Instance, TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.cache.entry import Entry
from internal.cloud.taskdriver.context import Hold
from internal.cloud.taskdriver.reading import instance_name, instance_reference

INSTANCE_UNKNOWN: Final = "InstanceUnknown"
"""Reason: there is no Instance of the name that the object gives."""
NOT_OWNED: Final = "NotOwned"
"""Reason: the Instance is not the controlling owner of the object."""


def ownership_hold(resource: Resource[Any, TaskStatus], named: Entry | None) -> Hold | None:
    """Return why no run may start for the object, or None if its Instance owns it.

    `named` is the Instance that the object names, from the cache. Only an Instance creates
    subresources; what merely carries its name is reported and never run.
    """
    place = f"{resource.metadata.namespace}/{instance_name(resource)}"
    kind = type(resource).gvk().kind
    if named is None:
        return Hold(
            reason=INSTANCE_UNKNOWN,
            message=(
                f"No run is started: Instance {place} does not exist. Create it, or delete this {kind}."
            ),
        )
    reference = instance_reference(resource)
    if reference is not None and reference.uid == named.uid:
        return None
    found = "has no owner reference to it" if reference is None else "belongs to another UID"
    return Hold(
        reason=NOT_OWNED,
        message=(
            f"No run is started: this {kind} names Instance {place} but {found}. Change the "
            f"{Instance.gvk().kind}'s spec instead, and delete this {kind}."
        ),
    )
