"""Pause and reconcile-now for any reconciler: one place, whatever the kind.

ctrlruntime.dev/paused=true           nothing is done for the object until the annotation is removed
ctrlruntime.dev/reconcile-now=VALUE   one reconcile; VALUE is then in `status.lastHandledReconcile`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, Conflict, TransportError
from ctrlruntime.controller.annotations import PAUSED, is_paused, requested
from ctrlruntime.controller.reconcile import Reconciler, Result
from ctrlruntime.controller.threads import as_asynchronous
from ctrlruntime.lifecycle.status import HANDLED, StatusWriter
from ctrlruntime.queue import Request

AGAIN: Final = 0.05
"""Seconds until an object that another writer changed meanwhile is looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Later(Result):
    """The answer of a pass that it is too early to report: a later one writes the status, and that a request was handled."""


class Entries(Protocol):
    """Where the object is looked up; a store of an informer."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


def pausing_annotation(entry: Entry) -> str:
    """Return the annotation that pauses an object; empty: it is not paused."""
    return PAUSED if is_paused(entry.annotations) else ""


def _never(_entry: Entry) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class PausePolicy:
    """What pauses the objects of a kind, and what a pause stops."""

    paused_by: Callable[[Entry], str] = pausing_annotation
    """Return the annotation that pauses an object; empty: it is not paused."""
    observes: bool = False
    """Reconcile paused objects all the same: the reconciler starts nothing for them, and reports what goes on."""
    handled_in: str = HANDLED
    """The field of the status that has the request to reconcile that was last handled."""
    only_of_now: str = ""
    """A condition that does not stay True for a generation that it was not computed for."""
    leaves_alone: Callable[[Entry], bool] = _never
    """Whether nothing at all is written for an object: then pause and requests are not reported either."""


@dataclass(frozen=True, slots=True)
class PausableReconciler:
    """A reconciler of objects that people can pause, and have reconciled at once.

    A paused object keeps everything, and gets no write but the condition Paused: its finalizer holds a deletion until
    the object is resumed. A request to reconcile is reported as handled whether the reconcile succeeded or not: who
    waits for it would wait for ever. The kind's status has `conditions`, and `lastHandledReconcile` or what takes its place.
    """

    reconciler: Reconciler
    entries: Entries
    mapping: RESTMapping
    statuses: StatusWriter
    policy: PausePolicy = field(default_factory=PausePolicy)

    def __post_init__(self) -> None:
        """Have a plain method run in a thread."""
        object.__setattr__(self, "reconciler", as_asynchronous(self.reconciler))

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile, unless the object is paused. Raises what the reconciler raises, and the client's errors."""
        entry = self.entries.get(request.name, namespace=request.namespace)
        if entry is None or self.policy.leaves_alone(entry):
            return await self.reconciler.reconcile(request)
        paused_by = self.policy.paused_by(entry)
        if paused_by and not self.policy.observes:
            return await self._report(entry, paused_by, "")
        handled = requested(entry.annotations)
        try:
            result = await self.reconciler.reconcile(request)
        except Exception as error:
            await self._report_failed(request, entry, paused_by, handled, error)
            raise
        if isinstance(result, Later):
            return result
        latest = self._latest(request, entry)
        again = None if latest is None else await self._report(latest, paused_by, handled)
        return result if again is None else again

    def _latest(self, request: Request, entry: Entry) -> Entry | None:
        """Return the object with what the reconcile has written; None: it is gone, or another one."""
        found = self.entries.get(request.name, namespace=request.namespace)
        return None if found is None or found.uid != entry.uid else found

    async def _report(self, entry: Entry, paused_by: str, handled: str) -> Result | None:
        try:
            if paused_by:
                await self.statuses.pause(
                    self.mapping,
                    entry,
                    only_of_now=self.policy.only_of_now,
                    annotation=paused_by,
                    only_if_unchanged=True,
                )
                return None
            await self.statuses.acknowledge(self.mapping, entry, handled, self.policy.handled_in)
        except Conflict:  # another writer's change is not in the cache yet
            return Result(requeue_after=AGAIN)
        return None

    async def _report_failed(
        self, request: Request, entry: Entry, paused_by: str, handled: str, error: Exception
    ) -> None:
        latest = self._latest(request, entry)
        try:
            if latest is not None:
                await self._report(latest, paused_by, handled)
        except (APIError, TransportError) as failure:
            error.add_note(f"its status could not be written: {failure}")
