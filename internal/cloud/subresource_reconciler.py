"""Reconciles the objects of one subresource: whose they are, whether they may be worked on, and then
``ensure``."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import ValidationError

from apis.cloud import Instance, TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.directives import is_paused
from ctrlruntime.controller.reconcile import Result, TerminalError
from ctrlruntime.queue import Request
from ctrlruntime.resources.revision import REVISION
from internal.cloud.content import spec_revision
from internal.cloud.marks import CONTROL_PLANE_MODE, INSTANCE, PAUSED, RUNS_FINALIZER
from internal.cloud.subresource import Subresource
from internal.cloud.taskdriver import EnsureOptions, Tools, ensure
from internal.cloud.taskdriver.statuses import take_hold

R = TypeVar("R", bound=Resource[Any, TaskStatus])

AT_ONCE = 0.01


@runtime_checkable
class NamesItsInstance(Protocol):
    """A spec that says which instance it is for; people may write it."""

    instance_name: str


async def _at_once() -> None:
    return


@dataclass(slots=True)
class SubresourceReconciler(Generic[R]):
    """Drives the task of each object of one kind. Reads the object and its instance from the cache."""

    subresource: Subresource[R]
    tools: Tools
    ready: Callable[[], Awaitable[object]] = _at_once
    """Waited for before anything is granted: the ledger knows who runs."""
    gone: Callable[[Request], None] = lambda _request: None
    """Told of objects that are no longer there."""

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the errors of the API server and of the provider of runs."""
        kind = self.subresource.kind
        cache = self.tools.client.cache
        entry = cache.entry(kind, request.name, request.namespace)
        if entry is None:
            self.gone(request)
            return None
        resource = typed(kind, entry)
        if resource is None:
            raise TerminalError(
                f"{entry!r} cannot be read as its kind; see the status of its instance"
            )
        instance = self._instance_of(resource)
        deleting = entry.deletion_timestamp is not None
        if instance is None and not deleting:
            return None
        if deleting and RUNS_FINALIZER not in entry.finalizers:
            return None
        if instance is not None and is_extracted(instance):
            return None
        if RUNS_FINALIZER not in entry.finalizers:
            await take_hold(self.tools.client, resource, RUNS_FINALIZER)
            return Result(requeue_after=AT_ONCE)
        await self.ready()
        progress = await ensure(self.tools, self._options(resource, instance))
        return progress.result

    def _options(self, resource: R, instance: Entry | None) -> EnsureOptions[R]:
        sub = self.subresource
        return EnsureOptions(
            definition=sub.definition,
            resource=resource,
            instance=instance.name if instance is not None else instance_name(resource),
            secrets=sub.secrets(resource),
            config_maps=sub.config_maps(resource),
            period=sub.period(resource),
            paused=instance is not None and _is_paused(instance),
            held=held(resource),
        )

    def _instance_of(self, resource: R) -> Entry | None:
        """The instance in the cache; None if it is not there, or is another one of that name."""
        reference = _reference(resource)
        entry = self.tools.client.cache.entry(
            Instance, instance_name(resource), resource.metadata.namespace
        )
        if entry is None or (reference is not None and reference != entry.uid):
            return None
        return entry


def typed(kind: type[R], entry: Entry) -> R | None:
    """An object as its kind. A status that cannot be read counts as none; None if the spec cannot."""
    try:
        return entry.typed(kind)
    except ValidationError:
        pass
    try:
        return kind.from_manifest({**entry.decode(), "status": {}})
    except ValidationError:
        return None


def instance_name(resource: Resource[Any, TaskStatus]) -> str:
    """The name of an object's instance: by owner, else as its spec or its label says."""
    for reference in resource.metadata.owner_references or ():
        if reference.controller and reference.kind == Instance.gvk().kind:
            return reference.name
    if isinstance(resource.spec, NamesItsInstance):
        return resource.spec.instance_name
    return (resource.metadata.labels or {}).get(INSTANCE, resource.metadata.name or "")


def held(resource: Resource[Any, TaskStatus]) -> str:
    """Why no run is started for an object whose spec is not the one that its instance gave it."""
    recorded = (resource.metadata.annotations or {}).get(REVISION)
    if recorded is None or recorded == spec_revision(resource.spec):
        return ""
    return (
        "The spec was changed by hand. No run is started for it: the instance puts it back. "
        "Change the Instance instead."
    )


def is_extracted(instance: Entry) -> bool:
    """Whether an instance was taken out of management: nothing is written for it."""
    return instance.annotations.get(CONTROL_PLANE_MODE, "").lower() == "false"


def _is_paused(instance: Entry) -> bool:
    own = instance.annotations.get(PAUSED, "").lower() == "true"
    return own or is_paused(instance.annotations)


def _reference(resource: Resource[Any, TaskStatus]) -> str | None:
    for reference in resource.metadata.owner_references or ():
        if reference.controller and reference.kind == Instance.gvk().kind:
            return reference.uid
    return None
