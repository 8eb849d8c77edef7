"""The protocol of the work itself: its input, and its result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from apis.references import SecretKeyRef
from internal.cloud.runs import RunInput


class TaskError(Exception):
    """The task did not succeed; another attempt may."""


class TaskRejected(TaskError):
    """The task did not succeed, and will not with the same inputs. The message names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The result of a task that succeeded."""

    message: str = ""
    """One sentence: what was done."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """For other tasks and for people; small."""
    secret_outputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For other tasks only."""


def _no_config_map(name: str) -> Mapping[str, str]:
    raise TaskRejected(f"the ConfigMap {name} was not given to the task")


def _no_secret(name: str) -> Mapping[str, str]:
    raise TaskRejected(f"the Secret {name} was not given to the task")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What a task is given."""

    input: RunInput
    secret: Callable[[SecretKeyRef], str]
    """The value of a Secret's key that the driver declared. Raises TaskRejected if it is not there."""
    folder: Path
    """An empty folder of its own."""
    log: structlog.stdlib.BoundLogger
    progress: Callable[[str], None]
    """Reports what it is doing; people see the last text while it runs."""
    config_map: Callable[[str], Mapping[str, str]] = _no_config_map
    """The texts of a ConfigMap that the driver declared, by key. Raises TaskRejected if it is not
    there."""
    secret_keys: Callable[[str], Mapping[str, str]] = field(default=_no_secret, repr=False)
    """Every value of a Secret that the driver declared as a whole, by key. Raises TaskRejected if it is
    not there."""


class Task(Protocol):
    """The work of one type of task. Every attempt may find what earlier ones left half-done."""

    name: str

    async def run(self, context: TaskContext) -> TaskResult:
        """Do it. Raises TaskError or TaskRejected; any other error counts as TaskError.

        Cancelled (asyncio) when the run is: then it stops what it has begun, as far as it can.
        """
        ...
