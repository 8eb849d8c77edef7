"""Break glass: an instance that people have taken out of management."""

from collections.abc import Mapping

from internal.cloud.marks import CONTROL_PLANE_MODE, PAUSED


def is_extracted(annotations: Mapping[str, str]) -> bool:
    """Whether nothing at all may be written for the instance and its subresources."""
    return annotations.get(CONTROL_PLANE_MODE, "").lower() == "false"


def is_paused(annotations: Mapping[str, str]) -> bool:
    """Whether nothing new may be begun for the object."""
    return annotations.get(PAUSED, "").lower() == "true"
