"""The driver: one ``ensure`` for every type of task."""

from .ensure import EnsureOptions, Progress, ensure
from .inputs import Inputs, inputs_of
from .metrics import TaskMetrics
from .opening import OpenRuns, shared
from .situation import Pace
from .tools import Tools
from .view import TaskDriver, TaskView

__all__ = [
    "EnsureOptions",
    "Inputs",
    "OpenRuns",
    "Pace",
    "Progress",
    "TaskDriver",
    "TaskMetrics",
    "TaskView",
    "Tools",
    "ensure",
    "inputs_of",
    "shared",
]
