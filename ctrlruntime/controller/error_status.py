"""An unexpected exception of a reconciler is seen in the object's status, not in the log alone."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from pydantic import ValidationError

from ctrlruntime.api.conditions import (
    conditions_of,
    conditions_to_wire,
    new_condition,
    set_condition,
    shorten,
)
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.protected_namespaces import NamespaceProtected, ProtectedNamespaces
from ctrlruntime.controller.reconcile import ReconcileError, Reconciler, Result, TerminalError
from ctrlruntime.controller.threads import as_asynchronous
from ctrlruntime.queue import Request

REASON: Final = "ReconcileError"
INVALID: Final = "InvalidSpec"
PROTECTED: Final = "NamespaceProtected"
EXPECTED: Final = (APIError, TransportError, OSError, TerminalError, ReconcileError)
"""Errors of a server or a network, and those that a reconciler raises to be retried or not."""


class Entries(Protocol):
    """Where the object is looked up; a store of an informer."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """A reconciler, and a condition for what it did not expect.

    An exception that is none of `EXPECTED` sets `condition` to False with the reason ReconcileError and the
    generation of the object, once; then it is raised on, so it is logged, counted and retried. The message
    names the exception's class and place alone, because its text may hold what no status may show.
    A ValidationError of pydantic is an object that cannot be read: the reason is InvalidSpec, the message
    names the fields, and it is not retried. An object in a protected namespace is not reconciled, deletions
    included: the reason is NamespaceProtected. The kind's status has `observedGeneration` and `conditions`.
    """

    reconciler: Reconciler
    entries: Entries
    client: Client
    mapping: RESTMapping
    field_manager: str
    clock: Callable[[], datetime]
    condition: str = "Ready"
    protected: ProtectedNamespaces = field(default_factory=ProtectedNamespaces)
    cluster: str = ""
    """The cluster of `entries` and `client`: failures of another one's requests are raised on only."""

    def __post_init__(self) -> None:
        """Have a plain method run in a thread."""
        object.__setattr__(self, "reconciler", as_asynchronous(self.reconciler))

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile. Raises what the reconciler raises."""
        refusal = self.protected.refusal(request.namespace)
        if refusal and request.cluster == self.cluster:
            await self._record(request, NamespaceProtected(refusal), PROTECTED, refusal)
            return None
        try:
            return await self.reconciler.reconcile(request)
        except EXPECTED:
            raise
        except ValidationError as error:
            message = unreadable(error)
            await self._record(request, error, INVALID, message)
            raise TerminalError(message) from error
        except Exception as error:
            await self._record(
                request,
                error,
                REASON,
                f"{where(error)}. This is a defect of the controller, which tries again; its log has "
                "the traceback. The object stays as it is.",
            )
            raise

    async def _record(self, request: Request, error: Exception, reason: str, message: str) -> None:
        if request.cluster != self.cluster:
            return
        entry = self.entries.get(request.name, namespace=request.namespace)
        if entry is None:
            return
        status: Manifest = entry.field("status") or {}
        conditions = conditions_of(status)
        failed = new_condition(self.condition, False, reason, message, generation=entry.generation)
        changed = set_condition(conditions, failed, self.clock())
        if not changed and status.get("observedGeneration") == entry.generation:
            return
        fields = {
            "observedGeneration": entry.generation,
            "conditions": conditions_to_wire(conditions),
        }
        try:
            await ObjectPatcher(self.client, self.field_manager).patch_status(
                self.mapping, entry.name, fields, namespace=entry.namespace, uid=entry.uid
            )
        except EXPECTED as failure:
            error.add_note(f"its status could not be written: {failure}")


def unreadable(error: ValidationError) -> str:
    """Return what is wrong with an object, by field, at most five of them."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5]]
    return shorten("; ".join(places))


def where(error: Exception) -> str:
    """Return the class of an exception and the line it comes from, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
