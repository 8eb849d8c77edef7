"""The life of an object: read, paused, reconciled on request, taken apart, reported in its status, and forgotten."""

from ctrlruntime.lifecycle.memory import PerObject, PerUID
from ctrlruntime.lifecycle.pausing import Later, PausableReconciler, PausePolicy, pausing_annotation
from ctrlruntime.lifecycle.reconciler import Lifecycle, ObjectPass, lose_remote, on_remote
from ctrlruntime.lifecycle.remote import ClusterTrouble, Remote
from ctrlruntime.lifecycle.status import StatusWriter

__all__ = [
    "ClusterTrouble",
    "Later",
    "Lifecycle",
    "ObjectPass",
    "PausableReconciler",
    "PausePolicy",
    "PerObject",
    "PerUID",
    "Remote",
    "StatusWriter",
    "lose_remote",
    "on_remote",
    "pausing_annotation",
]
