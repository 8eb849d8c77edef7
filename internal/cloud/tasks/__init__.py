"""Tasks: the work itself."""

from .task import (
    Concurrency,
    Retries,
    Supersede,
    Task,
    TaskContext,
    TaskDefinition,
    TaskError,
    TaskRejected,
    TaskResult,
)

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
