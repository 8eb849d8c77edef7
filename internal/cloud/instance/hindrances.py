"""What keeps an instance from being worked on, whatever its subresources are. Pure."""

from collections.abc import Callable
from typing import Final

from apis.cloud import Instance
from ctrlruntime.cache.entry import Entry
from ctrlruntime.rollout import BadWindow
from internal.cloud.change_holds import windows_of_instance
from internal.cloud.instance.bundles import BundleMissing, Bundles
from internal.cloud.instance.status import Hindrance

LONGEST_NAME: Final = 63
"""An instance's name is the value of a label."""


def look_ahead(
    instance: Instance,
    entry: Entry,
    conflict: Callable[[Instance], Hindrance | None],
    bundles: Bundles,
) -> tuple[Hindrance | None, str]:
    """Return what keeps the instance from being worked on, and the revision of its bundle."""
    if len(instance.metadata.name or "") > LONGEST_NAME:
        message = f"The name is longer than {LONGEST_NAME} characters: make another instance."
        return Hindrance(reason="NameTooLong", message=message), ""
    try:
        windows_of_instance(entry)
    except BadWindow as error:
        return Hindrance(reason="InvalidSpec", message=f"{error}."), ""
    found = conflict(instance)
    if found is not None:
        return found, ""
    try:
        return None, bundles.revision(instance)
    except BundleMissing as error:
        return Hindrance(reason="BundleMissing", message=str(error)), ""
