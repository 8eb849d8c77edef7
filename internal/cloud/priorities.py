"""How early the run of a subresource gets a place: by the instance's spec, and by the rollout of its version. Pure.

The priority of a rollout is that of its version. It counts for the runs that bring an instance there: the upgrade, what
the upgrade waits for, and the first run of each other subresource that names the version. What follows has the
instance's own priority again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from apis.cloud import TaskPriority, TaskStatus, written_version
from ctrlruntime.api import Resource
from ctrlruntime.cache.entry import Entry
from internal.cloud.release_assignment import recorded_assignment
from internal.cloud.subresource import Subresource
from internal.cloud.taskdriver.inputs import inputs_of, is_carried_out

R = TypeVar("R", bound=Resource[Any, TaskStatus])

_ORDER: Final = (TaskPriority.LOW, TaskPriority.NORMAL, TaskPriority.HIGH)


def priority_of(subresource: Subresource[R], resource: R, instance: Entry | None) -> TaskPriority:
    """Return the priority of the object's next run: the higher one of the instance's and its rollout's.

    A run of inputs that are carried out, such as a periodic one, is Normal at most.
    """
    if instance is None:
        return TaskPriority.NORMAL
    given = (_own_priority(instance), _assigned_priority(subresource, resource, instance))
    found = _highest(*given) or TaskPriority.NORMAL
    if found is not TaskPriority.HIGH or resource.metadata.deletion_timestamp is not None:
        return found
    done = is_carried_out(resource.status, inputs_of(resource))
    return TaskPriority.NORMAL if done else found


def _highest(*given: TaskPriority | None) -> TaskPriority | None:
    there = [item for item in given if item is not None]
    return max(there, key=_ORDER.index, default=None)


def _own_priority(instance: Entry) -> TaskPriority | None:
    """Return the priority in the spec; None if there is none that can be read."""
    spec: Mapping[str, Any] = instance.field("spec") or {}
    try:
        return TaskPriority(spec["priority"])
    except (KeyError, ValueError):
        return None


def _assigned_priority(
    subresource: Subresource[R], resource: R, instance: Entry
) -> TaskPriority | None:
    """Return the priority of the rollout whose version counts, if the object's run is part of the way there."""
    spec: Mapping[str, Any] = instance.field("spec") or {}
    assignment = recorded_assignment(instance)
    if assignment is None or assignment.spec_version != written_version(spec):
        return None
    version = subresource.version(resource)
    if version is None:
        deployed = (instance.field("status") or {}).get("version")
        leads_there = subresource.gates and deployed != assignment.version
        return assignment.priority if leads_there else None
    done = resource.status.succeeded
    is_next = done is None or done.finished_at <= assignment.change.at
    return assignment.priority if version == assignment.version and is_next else None
