"""Drift of workloads in the manager's own cluster: objects that were deleted or edited since the last run.

The inventory that a run leaves is seen here only if the instance's cluster is this one. Then the kinds
that it lists are watched, by label and as metadata alone; nothing is requested while nothing changes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from apis.cloud import InstanceKubernetes
from ctrlruntime.api.kinds import GroupKind, RESTMapping
from ctrlruntime.cache import Cache, CreateEvent, Entry, Event, InformerHandle, Store, UpdateEvent
from ctrlruntime.client.errors import NoKindMatch
from ctrlruntime.controller.predicates import entries_of
from ctrlruntime.queue import Request
from internal.cloud.keys import instance_key
from internal.cloud.taskdriver.inputs import instance_name
from internal.cloud.tasks.kubernetes.documents import ObjectRef
from internal.cloud.tasks.kubernetes.inventory import (
    FIELD_MANAGER,
    INVENTORY,
    OWNER,
    WORKLOAD,
    AppliedRecord,
    fields_digest,
    inventory_name,
    record_of,
)

SELECTOR: Final = INVENTORY
"""Label selector of inventories."""
ONE_OFF: Final = frozenset({GroupKind("batch", "Job")})
"""Kinds that are not compared: what they did is done, and a new one would do it again."""

_SHOWN: Final = 3


@dataclass(slots=True)
class WorkloadDrift:
    """Compares what runs left with what is there."""

    cache: Cache
    inventories: Store
    resolve: Callable[[GroupKind], Awaitable[RESTMapping]]
    """Return how a kind is served. Raises NoKindMatch."""
    wake: Callable[[Request], None]
    """Receives workloads that are to be compared again."""
    _watched: dict[GroupKind, InformerHandle] = field(default_factory=dict)
    _waits: dict[GroupKind, asyncio.Task[None]] = field(default_factory=dict)
    _waiting: dict[GroupKind, set[Request]] = field(default_factory=dict)

    async def of(self, resource: InstanceKubernetes) -> str:
        """Return what was deleted or edited since the last successful run, as a sentence; empty if nothing was.

        What cannot be read, such as a kind that the manager may not list, is not compared.
        """
        record = self._record(resource)
        if record is None:
            return ""
        namespace, name = resource.metadata.namespace or "", resource.metadata.name or ""
        deleted, edited = [], []
        for ref, digest in record.fields.items():
            store = await self._store(
                GroupKind(ref.group, ref.kind), Request(name, namespace=namespace)
            )
            if store is None:
                continue
            entry = store.get(ref.name, namespace=ref.namespace)
            if entry is None or entry.deletion_timestamp is not None:
                deleted.append(ref)
            elif fields_digest(entry.owned) != digest:
                edited.append(ref)
        return drift_message(deleted, edited)

    def _record(self, resource: InstanceKubernetes) -> AppliedRecord | None:
        """Return the record of the last run, if it is this cluster where that run was."""
        key = instance_key(resource.metadata.namespace or "", instance_name(resource))
        entry = self.inventories.get(inventory_name(key), namespace=resource.spec.cluster.namespace)
        record = None if entry is None else record_of(entry)
        last = resource.status.run
        if record is None or last is None or record.run_id != last.run_id:
            return None
        return record

    async def _store(self, kind: GroupKind, user: Request) -> Store | None:
        """Return the labelled objects of a kind; None while they are not listed. `user` is woken then."""
        if kind in ONE_OFF:
            return None
        handle = self._watched.get(kind)
        if handle is None:
            try:
                mapping = await self.resolve(kind)
            except NoKindMatch:
                return None
            handle = self._watched.setdefault(kind, self._declare(mapping))
        if handle.informer.synced:
            return handle.informer.store
        self._waiting.setdefault(kind, set()).add(user)
        if kind not in self._waits:
            self._waits[kind] = asyncio.create_task(self._wake_when_listed(kind, handle))
        return None

    def _declare(self, mapping: RESTMapping) -> InformerHandle:
        handle = self.cache.declare(
            mapping,
            labels=WORKLOAD,
            metadata_only=True,
            track_manager=FIELD_MANAGER,
            optional=True,
        )
        handle.informer.add_handler(self.object_changed)
        return handle

    async def _wake_when_listed(self, kind: GroupKind, handle: InformerHandle) -> None:
        await handle.informer.wait_synced()
        self._waits.pop(kind, None)
        for request in self._waiting.pop(kind, ()):
            self.wake(request)

    def object_changed(self, event: Event) -> None:
        """Wake the workload of an object that was deleted, or whose owned fields changed."""
        if isinstance(event, CreateEvent):
            return
        if isinstance(event, UpdateEvent) and not _lost_something(event.old, event.new):
            return
        self._wake(entries_of(event))

    def inventory_changed(self, event: Event) -> None:
        """Wake the workload whose inventory was written."""
        self._wake(entries_of(event)[-1:])

    def _wake(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            namespace, _, name = entry.annotations.get(OWNER, "").partition("/")
            if name:
                self.wake(Request(name, namespace=namespace))

    async def close(self) -> None:
        """Wait for nothing any more."""
        for wait in self._waits.values():
            wait.cancel()
        await asyncio.gather(*self._waits.values(), return_exceptions=True)


def _lost_something(old: Entry, new: Entry) -> bool:
    return old.owned != new.owned or old.deletion_timestamp != new.deletion_timestamp


def drift_message(deleted: list[ObjectRef], edited: list[ObjectRef]) -> str:
    """Return what was deleted and edited, as a sentence; empty if nothing was."""
    parts = [
        f"{_listed(sorted(refs))} {'was' if len(refs) == 1 else 'were'} {what}"
        for refs, what in ((deleted, "deleted"), (edited, "edited"))
        if refs
    ]
    return f"{'; '.join(parts)}." if parts else ""


def _listed(refs: list[ObjectRef]) -> str:
    more = f" and {len(refs) - _SHOWN} more" if len(refs) > _SHOWN else ""
    return ", ".join(map(str, refs[:_SHOWN])) + more
