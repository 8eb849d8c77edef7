"""The record of an object's task, read-only: what others need to know of it."""

from typing import Any, Protocol

from apis.cloud import TaskCondition, TaskRun, TaskState, TaskStatus
from ctrlruntime.api import Resource, is_condition_true
from internal.cloud.taskdriver.inputs import inputs_of
from internal.cloud.taskdriver.record import is_live
from internal.cloud.taskdriver.summary import READY


class TaskDriver(Protocol):
    """An object that drives a task, as others see it."""

    @property
    def inputs_version(self) -> str:
        """The inputs it has now."""
        ...

    @property
    def ready(self) -> bool:
        """Whether its *current* inputs are carried out."""
        ...

    @property
    def run(self) -> TaskRun | None:
        """The run under way, or else the last one."""
        ...

    @property
    def under_way(self) -> bool:
        """Whether a run may be under way."""
        ...

    def condition(self, state: TaskState) -> TaskCondition | None:
        """The last step of that kind."""
        ...


class TaskView:
    """A :class:`TaskDriver` of one object, as of when it was read."""

    def __init__(self, resource: Resource[Any, TaskStatus], *, once: bool = False) -> None:
        """`once`: the task is carried out once, whatever becomes of the inputs."""
        self._resource = resource
        self._once = once

    @property
    def status(self) -> TaskStatus:
        return self._resource.status

    @property
    def inputs_version(self) -> str:
        return inputs_of(self._resource).version

    @property
    def ready(self) -> bool:
        """By the condition Ready *and* the inputs last carried out, both for what is asked now.

        A status that tells of earlier inputs is never ready, whatever it says.
        """
        done = self.status.succeeded
        if done is None or self._resource.metadata.deletion_timestamp is not None:
            return False
        if self._once:
            return is_condition_true(self.status.conditions, READY)
        current = done.inputs_version == self.inputs_version
        seen = self.status.observed_generation == (self._resource.metadata.generation or 0)
        return current and seen and is_condition_true(self.status.conditions, READY)

    @property
    def run(self) -> TaskRun | None:
        return self.status.run

    @property
    def under_way(self) -> bool:
        return is_live(self.status.run)

    def condition(self, state: TaskState) -> TaskCondition | None:
        conditions = self.status.task_conditions
        return next((item for item in conditions if item.type is state), None)
