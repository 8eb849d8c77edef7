"""VolumeSnapshots of `snapshot.storage.k8s.io/v1`: what a snapshot's status tells. Pure.

Clusters without a CSI snapshot controller do not serve the kind; whoever reads it has to expect that.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api import GroupVersionKind, Quantity, RESTMapping
from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.cache.entry import Entry
from internal.cosmos.labels import HEIGHT

GROUP: Final = "snapshot.storage.k8s.io"
VOLUME_SNAPSHOT: Final = RESTMapping(
    GroupVersionKind(GROUP, "v1", "VolumeSnapshot"), "volumesnapshots", True
)
LONGEST_HEIGHT: Final = 18
"""Digits of a height."""
VOLUME_SNAPSHOT_CLASS: Final = RESTMapping(
    GroupVersionKind(GROUP, "v1", "VolumeSnapshotClass"), "volumesnapshotclasses", False
)
DEFINITION: Final = f"volumesnapshots.{GROUP}"
"""Name of the CustomResourceDefinition."""


def status_of(entry: Entry) -> dict[str, Any]:
    """Return the status, empty before the snapshot controller has looked at it."""
    status = entry.field("status")
    return status if isinstance(status, dict) else {}


def is_ready(entry: Entry) -> bool:
    """Whether volumes can be made from it."""
    return status_of(entry).get("readyToUse") is True and entry.deletion_timestamp is None


def error_of(entry: Entry) -> str | None:
    """Return what went wrong, in the words of the CSI driver; None if nothing did."""
    error = status_of(entry).get("error")
    if not isinstance(error, dict):
        return None
    return str(error.get("message") or "the snapshot controller reports an error without a message")


def taken_at(entry: Entry) -> datetime | None:
    """Return the moment that it shows; None before it was taken."""
    return time_or_none(status_of(entry).get("creationTime"))


def made_at(entry: Entry) -> datetime | None:
    """When the object was made."""
    return time_or_none(entry.creation_timestamp)


def height_of(entry: Entry) -> int | None:
    """Return the next height of the node whose disk it shows, as it was recorded with it; None if none was."""
    return height_in(entry.annotations)


def height_in(annotations: Mapping[str, str]) -> int | None:
    """Return the height that annotations of a snapshot or claim record; None if they record none."""
    text = annotations.get(HEIGHT, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_HEIGHT else None


def restore_size(entry: Entry) -> Quantity | None:
    """Return the least size of a volume made from it; None where the driver does not tell."""
    size = status_of(entry).get("restoreSize")
    if isinstance(size, bool) or not isinstance(size, str | int):
        return None
    quantity = Quantity(size)
    try:
        _ = quantity.value
    except ValueError:
        return None
    return quantity
