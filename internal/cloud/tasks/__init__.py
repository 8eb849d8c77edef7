"""Tasks: the work itself."""

from .definition import Concurrency, Retries, Supersede, TaskDefinition
from .task import Task, TaskContext, TaskError, TaskRejected, TaskResult

__all__ = [
    "Concurrency",
    "Retries",
    "Supersede",
    "Task",
    "TaskContext",
    "TaskDefinition",
    "TaskError",
    "TaskRejected",
    "TaskResult",
]
