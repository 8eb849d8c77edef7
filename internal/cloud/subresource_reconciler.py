"""Reconciles the objects of one subresource: whose they are, whether they may be worked on, and then
``ensure``."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from apis.cloud import Instance, TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.reconcile import Result, TerminalError
from ctrlruntime.queue import Request
from ctrlruntime.resources.revision import REVISION
from internal.cloud.content import spec_revision
from internal.cloud.instance.extraction import is_extracted, is_paused
from internal.cloud.instance.reading import read
from internal.cloud.instance.teardown import is_protected
from internal.cloud.marks import FIELD_MANAGER, RUNS_FINALIZER
from internal.cloud.records import Records
from internal.cloud.subresource import Subresource, Upstream
from internal.cloud.taskdriver import EnsureOptions, Tools, ensure
from internal.cloud.taskdriver.owners import owner_of
from internal.cloud.taskdriver.reading import instance_name, instance_reference, typed
from internal.cloud.taskdriver.record import is_live
from internal.cloud.taskdriver.situation import Leaving

R = TypeVar("R", bound=Resource[Any, TaskStatus])

AT_ONCE = 0.01


async def _at_once() -> None:
    return


@dataclass(slots=True)
class SubresourceReconciler(Generic[R]):
    """Drives the task of each object of one kind. Reads the object and its instance from the cache."""

    subresource: Subresource[R]
    tools: Tools
    ready: Callable[[], Awaitable[object]] = _at_once
    """Waited for before anything is granted: the ledger knows who runs."""
    config_map: Callable[[str, str], Mapping[str, str] | None] = lambda _namespace, _name: None
    """The texts of a ConfigMap by namespace and name; None if there is none."""
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
        resource = typed(kind, entry.decode())
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
        if instance is not None and is_extracted(instance.annotations):
            return self._leave_alone(resource)
        if RUNS_FINALIZER not in entry.finalizers:
            records = Records(self.tools.client, FIELD_MANAGER)
            await records.add_finalizer(kind.mapping(), entry, RUNS_FINALIZER)
            return Result(requeue_after=AT_ONCE)
        await self.ready()
        progress = await ensure(self.tools, self._options(resource, instance))
        return progress.result

    def _leave_alone(self, resource: R) -> Result | None:
        """Nothing is written while the instance is out of management. A run that was under way
        keeps its place with the limiter until its deadline, since nobody looks after it."""
        run, now = resource.status.run, self.tools.clock()
        left = 0.0
        if run is not None and is_live(run) and run.deadline is not None:
            left = (run.deadline - now).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        self.tools.limiter.release(owner_of(resource))
        return None

    def _options(self, resource: R, instance: Entry | None) -> EnsureOptions[R]:
        sub = self.subresource
        return EnsureOptions(
            definition=sub.definition,
            resource=resource,
            instance=instance.name if instance is not None else instance_name(resource),
            secrets=sub.secrets(resource),
            config_maps=self._config_maps(resource),
            period=sub.period(resource),
            paused=instance is not None and is_paused(instance.annotations),
            leaving=self._leaving(resource, instance),
            held=held(resource),
        )

    def _leaving(self, resource: R, instance: Entry | None) -> Leaving:
        """Under deletion protection nothing is torn down, whoever deletes the object.

        What the instance still wants is made anew and finds what its predecessor made; what it no
        longer wants stays, since nobody would know of what it made.
        """
        deleting = resource.metadata.deletion_timestamp is not None
        if not deleting or instance is None or not is_protected(instance):
            return Leaving.TEAR_DOWN
        return Leaving.KEEP if self._is_wanted(instance) else Leaving.HOLD

    def _is_wanted(self, entry: Entry) -> bool:
        if entry.deletion_timestamp is not None:
            return False
        instance, flaw = read(entry)
        upstream = Upstream(version=instance.status.version or instance.spec.sourcegraph_version)
        return flaw is None and self.subresource.desired(instance, upstream) is not None

    def _config_maps(self, resource: R) -> dict[str, Mapping[str, str]]:
        """Those that there are; the task says which it misses."""
        namespace = resource.metadata.namespace or ""
        names = self.subresource.config_maps(resource)
        found = {name: self.config_map(namespace, name) for name in names}
        return {name: texts for name, texts in found.items() if texts is not None}

    def _instance_of(self, resource: R) -> Entry | None:
        """The instance in the cache; None if it is not there, or is another one of that name."""
        reference = instance_reference(resource)
        entry = self.tools.client.cache.entry(
            Instance, instance_name(resource), resource.metadata.namespace
        )
        if entry is None or (reference is not None and reference.uid != entry.uid):
            return None
        return entry


def held(resource: Resource[Any, TaskStatus]) -> str:
    """Why no run is started for an object whose spec is not the one that its instance gave it."""
    recorded = (resource.metadata.annotations or {}).get(REVISION)
    if recorded is None or recorded == spec_revision(resource.spec):
        return ""
    return (
        "The spec was changed by hand. No run is started for it: the instance puts it back. "
        "Change the Instance instead."
    )
