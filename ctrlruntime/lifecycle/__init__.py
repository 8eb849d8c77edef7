"""The life of an object: read, paused, reconciled on request, taken apart, reported in its status, and forgotten."""

from ctrlruntime.lifecycle.memory import PerObject, PerUID
from ctrlruntime.lifecycle.pausing import PausableReconciler, PausePolicy, pausing_annotation
from ctrlruntime.lifecycle.reconciler import Lifecycle, ObjectPass
from ctrlruntime.lifecycle.status import StatusWriter

__all__ = [
    "Lifecycle",
    "ObjectPass",
    "PausableReconciler",
    "PausePolicy",
    "PerObject",
    "PerUID",
    "StatusWriter",
    "pausing_annotation",
]
