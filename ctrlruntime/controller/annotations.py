"""What people tell a controller through annotations on an object: pause, and reconcile now."""

from collections.abc import Mapping
from typing import Final

PAUSED: Final = "ctrlruntime.dev/paused"
"""Annotation: "true" stops all work on the object until it is removed."""
RECONCILE_NOW: Final = "ctrlruntime.dev/reconcile-now"
"""Annotation: any new value requests one reconcile. The value last carried out is reported in
`status.lastHandledReconcile`, so that whoever asked can wait for it."""


def is_paused(annotations: Mapping[str, str]) -> bool:
    """Whether the object is paused. Anything but "true" (in any case) is not."""
    return annotations.get(PAUSED, "").lower() == "true"


def requested(annotations: Mapping[str, str]) -> str:
    """Return the value of the reconcile-now annotation, empty if there is none."""
    return annotations.get(RECONCILE_NOW, "")
