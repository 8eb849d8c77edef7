"""The life of an object, so that a reconciler states its own work alone.

life = Lifecycle(Bucket, finalizer="example.com/bucket", reconcile=ensure, tear_down=empty)
Builder(manager).for_(Bucket).build(life.reconciler(manager))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from pydantic import ValidationError

from ctrlruntime.api.conditions import find_condition, new_condition, set_condition
from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.informer import Informer
from ctrlruntime.client.client import Client
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.protected_namespaces import ProtectedNamespaces
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.annotations import requested
from ctrlruntime.controller.error_status import ErrorStatus, unreadable
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.lifecycle.pausing import Entries, PausableReconciler, PausePolicy
from ctrlruntime.lifecycle.status import StatusWriter
from ctrlruntime.queue import Request

KindT = TypeVar("KindT", bound=Resource[Any, Any])
READY: Final = "Ready"
EventType = Literal["Normal", "Warning"]


class Forgets(Protocol):
    """Keeps something of objects; a PerObject, or metrics."""

    def forget(self, request: Request, /) -> None: ...


class HostOptions(Protocol):
    """The options of a manager."""

    @property
    def protected(self) -> ProtectedNamespaces: ...


class Host(Protocol):
    """What a lifecycle needs of a manager."""

    @property
    def cache(self) -> Cache: ...
    @property
    def client(self) -> Client: ...
    @property
    def recorder(self) -> EventRecorder: ...
    @property
    def options(self) -> HostOptions: ...


@dataclass(slots=True)
class ObjectPass:
    """One reconcile of one object, besides the object itself."""

    entry: Entry
    """The object as the cache has it."""
    now: datetime
    problem: str = ""
    """Which fields of the object cannot be read; empty: it is readable."""
    events: list[tuple[EventType, str, str, str]] = field(default_factory=list)

    def event(self, kind: EventType, reason: str, action: str, note: str) -> None:
        """Record an event once the status is written, and none if nothing of it changed."""
        self.events.append((kind, reason, action, note))

    def set_ready(
        self, obj: Resource[Any, Any], ready: bool, reason: str, message: str = ""
    ) -> None:
        """Set the condition Ready in the status of the object."""
        condition = new_condition(READY, ready, reason, message, generation=self.entry.generation)
        set_condition(obj.status.conditions, condition, self.now)


Work = Callable[[KindT, ObjectPass], Awaitable[Result | None]]
"""Gets a copy of the object of its own: what it changes in its status is written."""


class Lifecycle(Generic[KindT]):
    """Look up, pause, read, finalizer, then the functions of one kind; and one writer of its status.

    An object that is gone is forgotten by `memory`. A paused one keeps everything, and its deletion waits. One that
    cannot be read has `Ready` at False with the reason InvalidSpec, and keeps its finalizer. The status has
    `observedGeneration`, `conditions` and `lastHandledReconcile`; its difference is written after the function, with
    `Ready` at True unless the function set it for this generation. A status as it should be costs no write.
    """

    def __init__(
        self,
        kind: type[KindT],
        *,
        reconcile: Work[KindT],
        tear_down: Work[KindT] | None = None,
        finalizer: str = "",
        pause: PausePolicy | None = None,
        unreadable: Callable[[Entry], KindT] | None = None,
        memory: Sequence[Forgets] = (),
    ) -> None:
        """Raise ValueError for a finalizer without `tear_down`, or the other way round.

        `tear_down` is called for a deleted object until it returns None; then the finalizer is removed.
        `unreadable` returns what is reconciled in place of an object that cannot be read.
        """
        if bool(finalizer) != (tear_down is not None):
            raise ValueError(f"{kind.__name__}: give finalizer and tear_down together, or neither")
        self.kind = kind
        self.work = reconcile
        self.tear_down = tear_down
        self.finalizer = finalizer
        self.pause = pause or PausePolicy()
        self.unreadable = unreadable
        self.memory = tuple(memory)

    def reconciler(
        self,
        manager: Host,
        *,
        informer: Informer | None = None,
        field_manager: str = "",
        clock: Callable[[], datetime] = utc_now,
    ) -> ErrorStatus:
        """Return the reconciler for a controller of the kind. `field_manager`: default the kind, in lower case."""
        mapping = self.kind.mapping()
        name = field_manager or mapping.gvk.kind.lower()
        store = (informer or manager.cache.declare(self.kind).informer).store
        statuses = StatusWriter(ObjectPatcher(manager.client, name), clock)
        passes = _Passes(self, store, statuses, manager.recorder, clock)
        pausable = PausableReconciler(passes, store, mapping, statuses, self.pause)
        protected = manager.options.protected
        return ErrorStatus(
            pausable, store, manager.client, mapping, name, clock, protected=protected
        )


@dataclass(frozen=True, slots=True)
class _Passes(Generic[KindT]):
    life: Lifecycle[KindT]
    entries: Entries
    statuses: StatusWriter
    recorder: EventRecorder
    clock: Callable[[], datetime]

    async def reconcile(self, request: Request) -> Result | None:
        """Make one pass. Raises what the functions raise, and the client's errors."""
        life = self.life
        entry = self.entries.get(request.name, namespace=request.namespace)
        if entry is None:
            for each in life.memory:
                each.forget(request)
            return None
        if life.pause.leaves_alone(entry):
            return None
        this = ObjectPass(entry, self.clock())
        obj = await self._read(entry, this)
        if obj is None:
            return None
        if life.tear_down is None:
            return await self._run(life.work, obj, this)
        if entry.deletion_timestamp is not None:
            return await self._leave(life.tear_down, obj, this)
        if life.finalizer not in entry.finalizers:
            await self.statuses.patcher.add_finalizer(life.kind.mapping(), entry, life.finalizer)
            return None  # the answer is in the cache and brings us back
        return await self._run(life.work, obj, this)

    async def _read(self, entry: Entry, this: ObjectPass) -> KindT | None:
        try:
            return entry.typed(self.life.kind)
        except ValidationError as error:
            this.problem = unreadable(error)
            if self.life.unreadable is not None:
                return self.life.unreadable(entry)
            mapping = self.life.kind.mapping()
            await self.statuses.refuse(mapping, entry, READY, error, text=this.problem)
            return None

    async def _leave(self, tear_down: Work[KindT], obj: KindT, this: ObjectPass) -> Result | None:
        """Take an object apart; let it go once nothing is left."""
        if self.life.finalizer not in this.entry.finalizers:
            return None
        left = await self._run(tear_down, obj, this)
        if left is None:
            patcher, mapping = self.statuses.patcher, self.life.kind.mapping()
            await patcher.remove_finalizer(mapping, this.entry, self.life.finalizer)
        return left

    async def _run(self, work: Work[KindT], obj: KindT, this: ObjectPass) -> Result | None:
        before = obj.status.model_copy(deep=True)
        result = await work(obj, this)
        after, entry = obj.status, this.entry
        after.observed_generation = entry.generation
        after.last_handled_reconcile = requested(entry.annotations) or before.last_handled_reconcile
        ready = find_condition(after.conditions, READY)
        if ready is None or ready.observed_generation != entry.generation:
            self._conclude(obj, this)
        self.statuses.resume(after.conditions, entry)
        mapping = self.life.kind.mapping()
        if await self.statuses.patcher.write_status(mapping, entry, before, after):
            for each in this.events:
                self.recorder.event(entry, *each)
        return result

    def _conclude(self, obj: KindT, this: ObjectPass) -> None:
        if this.entry.deletion_timestamp is None:
            this.set_ready(obj, True, "Reconciled")
        else:
            this.set_ready(obj, False, "Deleting", "What belongs to it is being deleted.")
