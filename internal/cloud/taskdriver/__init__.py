"""The driver: one ``ensure`` for every type of task."""

from internal.cloud.pace import Pace

from .deps import OpenRuns, TaskMetrics, Tools, shared
from .ensure import EnsureOptions, Progress, ensure
from .inputs import Inputs, inputs_of, is_ready

__all__ = [
    "EnsureOptions",
    "Inputs",
    "OpenRuns",
    "Pace",
    "Progress",
    "TaskMetrics",
    "Tools",
    "ensure",
    "inputs_of",
    "is_ready",
    "shared",
]
