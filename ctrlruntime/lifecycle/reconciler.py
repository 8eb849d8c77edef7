"""The life of an object, so that a reconciler states its own work alone.

life = Lifecycle(Bucket, finalizer="example.com/bucket", reconcile=ensure, tear_down=empty)
Builder(manager).for_(Bucket).build(life.reconciler(manager))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast

from pydantic import ValidationError

from ctrlruntime.api.conditions import find_condition, new_condition, set_condition
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.api.resource import ObjectMeta, Resource
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.informer import Informer
from ctrlruntime.client.client import Client
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.protected_namespaces import ProtectedNamespaces
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.controller.annotations import requested
from ctrlruntime.controller.error_status import ErrorStatus, unreadable
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.lifecycle.memory import PerObject
from ctrlruntime.lifecycle.pausing import Entries, Later, PausableReconciler, PausePolicy
from ctrlruntime.lifecycle.remote import ClusterTrouble, Remote, report_hub
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


@dataclass(slots=True, kw_only=True)
class Writes:
    """What a pass writes with, and where it looks its object up."""

    mapping: RESTMapping
    entries: Entries
    statuses: StatusWriter
    recorder: EventRecorder
    counted: Callable[[Entry], Entry]
    period: float
    """Seconds between two writes of one status, at least."""
    written: PerObject[float]
    """When the statuses were written, where there is a period."""

    def look(self, request: Request) -> Entry | None:
        """Return the object of a name as far as it counts."""
        found = self.entries.get(request.name, namespace=request.namespace)
        return None if found is None else self.counted(found)

    def wait(self, request: Request) -> float:
        """Return the seconds until the status of an object may be written again."""
        written = self.written.get(request)
        return 0.0 if written is None else written + self.period - monotonic()


@dataclass(slots=True)
class ObjectPass:
    """One reconcile of one object, besides the object itself."""

    entry: Entry
    """The object as the cache has it."""
    now: datetime
    before: Any
    """The status that is stored."""
    writes: Writes
    wait: float = 0.0
    """Seconds until the status may be written again; it may be now, if it is not positive."""
    problem: str = ""
    """Which fields of the object cannot be read; empty: it is readable."""
    events: list[tuple[EventType, str, str, str]] = field(default_factory=list)
    _ready_set: bool = False

    @property
    def request(self) -> Request:
        """The object's name, as controllers are called with it."""
        return Request(self.entry.name, namespace=self.entry.namespace)

    def event(self, kind: EventType, reason: str, action: str, note: str) -> None:
        """Record an event once the status is written, and none if nothing of it changed."""
        self.events.append((kind, reason, action, note))

    def set_ready(
        self, obj: Resource[Any, Any], ready: bool, reason: str, message: str = ""
    ) -> None:
        """Set the condition Ready in the status of the object."""
        self._ready_set = True
        condition = new_condition(READY, ready, reason, message, generation=self.entry.generation)
        set_condition(obj.status.conditions, condition, self.now)

    def set_remote(
        self, obj: Resource[Any, Any], *troubles: ClusterTrouble, used: bool = False
    ) -> None:
        """Set the condition of the other cluster in the status, if it was there before or it is `used`."""
        conditions = obj.status.conditions
        report_hub(conditions, troubles, self.entry.generation, self.now, used=used)

    async def record(self, obj: Resource[Any, Any]) -> bool:
        """Write the status before what it announces is done. Return whether that changed it.

        Without it the status is written once, after the function.
        """
        written = await self.write(obj)
        if written:
            self.before = obj.status.model_copy(deep=True)
        return written

    def reread(self) -> bool:
        """Have what was written since in `entry`. Return False if the object is gone, or another than was read."""
        found, entry = self.writes.look(self.request), self.entry
        if found is None or (found.uid, found.generation) != (entry.uid, entry.generation):
            return False
        self.entry = found
        return True

    async def write(self, obj: Resource[Any, Any]) -> bool:
        """Write the status for the last time in this pass."""
        after, entry = obj.status, self.entry
        after.observed_generation = entry.generation
        statuses, mapping = self.writes.statuses, self.writes.mapping
        statuses.resume(after.conditions, entry)
        written = await statuses.patcher.write_status(mapping, entry, self.before, after)
        if written:
            if self.writes.period:
                self.writes.written.put(self.request, monotonic())
            for each in self.events:
                self.writes.recorder.event(entry, *each)
            self.events = []
        return written

    async def set_finalizer(self, finalizer: str, there: bool) -> None:
        """Put a finalizer on the object, or take it off."""
        patcher, mapping = self.writes.statuses.patcher, self.writes.mapping
        change = patcher.add_finalizer if there else patcher.remove_finalizer
        await change(mapping, self.entry, finalizer)


Work = Callable[[KindT, ObjectPass], Awaitable[Result | None]]
"""Gets a copy of the object of its own: what it changes in its status is written."""
Loss = Callable[[KindT, ObjectPass, ClusterTrouble], None]


def lose_remote(obj: Resource[Any, Any], this: ObjectPass, trouble: ClusterTrouble) -> None:
    """Have the status show that nothing is decided while the other cluster is unknown."""
    this.set_ready(obj, False, trouble.reason, trouble.message)
    this.set_remote(obj, trouble, used=True)


@dataclass(frozen=True, slots=True)
class OnRemote(Generic[KindT]):
    """What an object has is in another cluster: nothing is decided while that is unknown."""

    remote: Remote
    unread: float
    retry: float
    lost: Loss[KindT]


def on_remote(
    remote: Remote | None,
    unread: float = 3.0,
    retry: float = 30.0,
    *,
    lost: Loss[KindT] = lose_remote,
) -> OnRemote[KindT] | None:
    """Return where the objects of a kind are; None: in its own cluster.

    `unread`, `retry`: seconds until the next look, while it has not been read yet, and while it does not answer, which
    `lost` has the status show.
    """
    return None if remote is None else OnRemote(remote, unread, retry, lost)


def _as_it_is(entry: Entry) -> Entry:
    return entry


class Lifecycle(Generic[KindT]):
    """Look up, pause, read, finalizer, then the functions of one kind; and one writer of its status.

    An object that is gone is forgotten by `memory`, then `gone` is called. A paused one keeps everything, and its
    deletion waits. One that cannot be read has `Ready` at False with the reason InvalidSpec, and keeps its finalizer.
    The status has `observedGeneration`, `conditions` and `lastHandledReconcile`; its difference is written after the
    function, with `Ready` at True unless the function set it for this generation. A status as it should be costs no write.
    """

    def __init__(
        self,
        kind: type[KindT],
        *,
        reconcile: Work[KindT],
        tear_down: Work[KindT] | None = None,
        finalizer: str = "",
        until_deleted: bool = False,
        counted: Callable[[Entry], Entry] = _as_it_is,
        pause: PausePolicy | None = None,
        unreadable: Work[KindT] | None = None,
        describe: Callable[[ValidationError], str] = unreadable,
        remote: OnRemote[KindT] | None = None,
        gone: Callable[[Request], Awaitable[None]] | None = None,
        memory: Sequence[Forgets] = (),
        status_period: float = 0.0,
    ) -> None:
        """Raise ValueError for a finalizer without `tear_down`, or the other way round.

        `tear_down` is called for a deleted object until it returns None; then the finalizer is removed.
        `until_deleted`: without one, nothing is done for an object from its deletion on.
        `counted` returns an object as far as it counts, such as without approvals that are not signed.
        `unreadable` is called for an object that cannot be read, with its status and without its spec, in place of
        `reconcile`; `tear_down` too gets it that way then. `describe` returns what is wrong with it, without values.
        `status_period`: seconds between two writes of one status; what is left of them is in the pass: the functions
        return Later then.
        """
        if bool(finalizer) != (tear_down is not None):
            raise ValueError(f"{kind.__name__}: give finalizer and tear_down together, or neither")
        self.kind = kind
        self.work = reconcile
        self.tear_down = tear_down
        self.finalizer = finalizer
        self.counted = counted
        self.pause = pause or PausePolicy()
        if until_deleted:
            self.pause = replace(self.pause, leaves_alone=self._leaves_alone(self.pause))
        self.unreadable = unreadable
        self.describe = describe
        self.remote = remote
        self.gone = gone
        self.memory = tuple(memory)
        self.status_period = status_period

    def _leaves_alone(self, pause: PausePolicy) -> Callable[[Entry], bool]:
        return lambda entry: entry.deletion_timestamp is not None or pause.leaves_alone(entry)

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
        informer = informer or manager.cache.declare(self.kind).informer
        store = informer.store
        statuses = StatusWriter(ObjectPatcher(manager.client, name), clock)
        writes = Writes(
            mapping=mapping,
            entries=store,
            statuses=statuses,
            recorder=manager.recorder,
            counted=self.counted,
            period=self.status_period,
            written=PerObject(informer if self.status_period else None),
        )
        passes = _Passes(self, writes, clock)
        pausable = PausableReconciler(passes, store, mapping, statuses, self.pause)
        protected = manager.options.protected
        return ErrorStatus(
            pausable, store, manager.client, mapping, name, clock, protected=protected
        )


@dataclass(frozen=True, slots=True)
class _Passes(Generic[KindT]):
    life: Lifecycle[KindT]
    writes: Writes
    clock: Callable[[], datetime]

    async def reconcile(self, request: Request) -> Result | None:
        """Make one pass. Raises what the functions raise, and the client's errors."""
        life = self.life
        entry = self.writes.look(request)
        if entry is None:
            for each in life.memory:
                each.forget(request)
            if life.gone is not None:
                await life.gone(request)
            return None
        deleted = entry.deletion_timestamp is not None
        if life.pause.leaves_alone(entry):
            return None
        if deleted and life.tear_down is not None and life.finalizer not in entry.finalizers:
            return None
        this = ObjectPass(entry, self.clock(), None, self.writes, self.writes.wait(request))
        on = life.remote
        if on is not None and not on.remote.is_usable():
            return await self._wait(on, this)
        obj = await self._read(entry, this)
        if obj is None:
            return None
        if deleted and life.tear_down is not None:
            return await self._leave(life.tear_down, obj, this)
        if life.finalizer and life.finalizer not in entry.finalizers:
            await this.set_finalizer(life.finalizer, there=True)
            return None  # the answer is in the cache and brings us back
        work = life.unreadable if this.problem and life.unreadable is not None else life.work
        return await self._run(work, obj, this)

    async def _read(self, entry: Entry, this: ObjectPass) -> KindT | None:
        """Return the object, without its spec if that cannot be read; None: that is reported, and all there is to do."""
        life = self.life
        try:
            return entry.typed(life.kind)
        except ValidationError as error:
            this.problem = life.describe(error)
            if life.unreadable is not None:
                return without_spec(entry, life.kind)
            await self.writes.statuses.refuse(
                self.writes.mapping, entry, READY, error, text=this.problem
            )
            return None

    async def _wait(self, on: OnRemote[KindT], this: ObjectPass) -> Result:
        """Report that nothing is decided while the other cluster is unknown."""
        trouble, entry = on.remote.trouble(), this.entry
        if trouble is None:
            return Result(requeue_after=on.unread)
        obj = without_spec(entry, self.life.kind)
        this.before = obj.status.model_copy(deep=True)
        on.lost(obj, this, trouble)
        await this.write(obj)
        return Result(requeue_after=on.retry)

    async def _leave(self, tear_down: Work[KindT], obj: KindT, this: ObjectPass) -> Result | None:
        """Take an object apart; let it go once nothing is left."""
        left = await self._run(tear_down, obj, this)
        if left is None:
            await this.set_finalizer(self.life.finalizer, there=False)
        return left

    async def _run(self, work: Work[KindT], obj: KindT, this: ObjectPass) -> Result | None:
        """Call the function and write its status. A deleted object that has to wait is Deleting, unless the function has a reason."""
        this.before = obj.status.model_copy(deep=True)
        result = await work(obj, this)
        if isinstance(result, Later):
            return result
        after, entry = obj.status, this.entry
        if entry.deletion_timestamp is None:
            handled = requested(entry.annotations) or after.last_handled_reconcile
            after.last_handled_reconcile = handled
            ready = find_condition(after.conditions, READY)
            if ready is None or ready.observed_generation != entry.generation:
                this.set_ready(obj, True, "Reconciled")
        elif result is not None and not this._ready_set:
            this.set_ready(obj, False, "Deleting", "What belongs to it is being deleted.")
        if entry.deletion_timestamp is not None and after == this.before:
            return result
        await this.write(obj)
        return result


def without_spec(entry: Entry, kind: type[KindT]) -> KindT:
    """Return an object whose spec cannot be read, so it has none; its status, or an empty one, and its names."""
    model: Any = kind.model_fields["status"].annotation
    try:
        status = model.model_validate(entry.field("status") or {})
    except ValidationError:
        status = model()
    gvk, untyped = kind.gvk(), cast("Any", kind)  # the plugin of the type checker forgets KindT
    names = ObjectMeta(name=entry.name, namespace=entry.namespace, uid=entry.uid)
    bare: KindT = untyped.model_construct(
        api_version=gvk.api_version, kind=gvk.kind, metadata=names, spec=None, status=status
    )
    return bare
