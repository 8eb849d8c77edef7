"""The ledger's contents, from the record in the objects: at the start of leadership, and from then on of what others wrote."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apis.cloud import TaskPriority, TaskState, TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.client import Client, NotFound
from ctrlruntime.resources import Definitions
from internal.cloud.concurrency.checker import Claim
from internal.cloud.concurrency.limiter import ConcurrencyLimiter
from internal.cloud.runs import RunOwner
from internal.cloud.subresource import Subresource
from internal.cloud.taskdriver.inputs import instance_name, trusted, typed
from internal.cloud.taskdriver.record import LIVE, is_live, owner_of
from internal.cloud.tasks.task import TaskDefinition


def _own_definition(subresource: Subresource[Any]) -> TaskDefinition:
    return subresource.definition


@dataclass(slots=True)
class LedgerKeeper:
    """Fills a ledger once, from consistent reads, when it is first asked for by who leads.

    Nothing may be granted before :meth:`ready` has returned.
    """

    ledger: ConcurrencyLimiter
    client: Client
    """Live: what a cache holds at the start of leadership may be older than the last leader's writes."""
    subresources: Sequence[Subresource[Any]]
    crds: Definitions
    """Decides what a 404 means: the kind is gone, or the server does not serve it at the moment."""
    clock: Callable[[], datetime]
    definition_of: Callable[[Subresource[Any]], TaskDefinition] = _own_definition
    """The definition of a subresource's task to use now."""
    wake: Callable[[RunOwner], None] = lambda _owner: None
    """Called for owners that were found to hold a place without our doing: their next pass finds
    whether they still do."""
    gone: Callable[[str, str], None] = lambda _task, _uid: None
    """Called with the task and UID of objects that are deleted (`TaskMetrics.forget`)."""
    namespaces: Collection[str] = ()
    """Those that are managed; none means all."""
    grants: bool = False
    """Whether several managers share the objects: what has a grant on record counts as running."""
    listed: dict[str, int] = field(default_factory=dict, init=False)
    """By UID, the version of each object that the ledger was filled from, until a cache has it."""
    _reading: asyncio.Task[None] | None = field(default=None, init=False)
    _read: bool = field(default=False, init=False)

    async def ready(self) -> None:
        """Return once the ledger knows who runs and who waits.

        Raises the client's errors; the next call tries again.
        """
        if self._read:
            return
        if self._reading is None or (self._reading.done() and not self._read):
            self._reading = asyncio.create_task(self._rebuild(), name="ledger")
        await asyncio.shield(self._reading)

    def observe(self, subresource: Subresource[Any], event: Event) -> None:
        """Return a handler for the informer of the subresource's kind."""
        if isinstance(event, DeleteEvent):
            self.ledger.forget(event.old.uid)
            self.listed.pop(event.old.uid, None)
            self.gone(subresource.definition.name, event.old.uid)
            return
        if not isinstance(event, CreateEvent | UpdateEvent):
            return
        if not self._read or self.ledger.holds(event.new.uid):
            return
        run = (event.new.field("status") or {}).get("run") or {}
        if run.get("state") in LIVE and self._enter(subresource, event.new.decode()):
            resource = typed(subresource.kind, event.new.decode())
            if resource is not None:
                self.wake(owner_of(resource))

    async def _rebuild(self) -> None:
        found = [
            (subresource, manifest)
            for subresource in self.subresources
            for namespace in self.namespaces or (None,)
            for manifest in await self._list(subresource, namespace)
        ]
        for subresource, manifest in found:
            self._enter(subresource, manifest)
            if self.grants:
                metadata = manifest["metadata"]
                self.listed[metadata["uid"]] = int(metadata["resourceVersion"])
        self._read = True

    async def _list(
        self, subresource: Subresource[Any], namespace: str | None
    ) -> list[dict[str, Any]]:
        """Return the objects of a kind. One whose CRD is deleted has none, and blocks no other kind.

        Raises NotFound if the CRD exists, and Forbidden if it may not be read: the kind's runs are unknown.
        """
        mapping = subresource.kind.mapping()
        try:
            found: list[dict[str, Any]] = await self.client.list(mapping, namespace)
        except NotFound:
            crd = await self.crds.of(mapping)
            if crd.exists and not crd.terminating:
                raise
            return []
        return found

    def _enter(self, subresource: Subresource[Any], manifest: dict[str, Any]) -> bool:
        """Enter one object; True if it holds a place that was not known."""
        resource = typed(subresource.kind, manifest)
        if resource is None:
            return False
        claim, status = self.claim_of(subresource, resource)
        if not self._read:
            for ended in (status.run, *status.history):
                if ended is not None and ended.created_at and ended.finished_at:
                    self.ledger.ran(claim.task, ended.created_at, ended.finished_at)
        run, waiting, now = status.run, status.waiting, self.clock()
        if run is not None and is_live(run):
            sure = self.grants or run.state is not TaskState.CREATING
            return self.ledger.learn(claim, since=run.created_at or now, sure=sure)
        if self.grants and waiting is not None and waiting.granted_at is not None:
            return self.ledger.learn(claim, since=waiting.granted_at, sure=True)
        if waiting is not None:
            self.ledger.queue(claim)
        return False

    def claim_of(
        self, subresource: Subresource[Any], resource: Resource[Any, TaskStatus]
    ) -> tuple[Claim, TaskStatus]:
        """Return what an object wants of the ledger by its status, and what of that status can be believed."""
        definition, now = self.definition_of(subresource), self.clock()
        owner = owner_of(resource)
        status = trusted(resource.status, owner, definition, now)
        waiting = status.waiting
        claim = Claim(
            task=definition.name,
            owner=owner,
            instance=instance_name(resource),
            since=now if waiting is None else min(waiting.since, now),
            concurrency=definition.concurrency,
            priority=(waiting and waiting.priority) or TaskPriority.NORMAL,
            recorded=waiting,
        )
        return claim, status
