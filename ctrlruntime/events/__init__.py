"""Events of ``events.k8s.io/v1``: recorded at once, merged, limited, sent in the background."""

from ctrlruntime.events.correlator import EventOptions
from ctrlruntime.events.recorder import EventRecorder

__all__ = ["EventOptions", "EventRecorder"]
