"""The life of an object: paused, reconciled on request, reported in its status."""

from ctrlruntime.lifecycle.memory import PerObject, PerUID
from ctrlruntime.lifecycle.pausing import PausableReconciler, PausePolicy, pausing_annotation
from ctrlruntime.lifecycle.status import StatusWriter

__all__ = [
    "PausableReconciler",
    "PausePolicy",
    "PerObject",
    "PerUID",
    "StatusWriter",
    "pausing_annotation",
]
