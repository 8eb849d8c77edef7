"""An object as the owner of its runs."""

from typing import Any

from apis.cloud import TaskStatus
from ctrlruntime.api import Resource
from internal.cloud.runs import RunOwner


def owner_of(resource: Resource[Any, TaskStatus]) -> RunOwner:
    """The owner that runs of the object are kept under."""
    return RunOwner(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=resource.metadata.namespace or "",
        name=resource.metadata.name or "",
        uid=resource.metadata.uid or "",
    )
