"""Status writes: only on difference, only what differs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from pydantic import ValidationError

from ctrlruntime.api.conditions import Condition, Conditions, find_condition, set_condition
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.cache.cache import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.patches import difference
from ctrlruntime.controller.directives import PAUSED, requested

PAUSED_CONDITION: Final = "Paused"
"""Condition of all our kinds: there once the object was paused, True while it is."""


class Status(Protocol):
    """What the statuses of our kinds share."""

    conditions: Conditions

    def to_wire(self, *, exclude_unset: bool = True) -> dict[str, Any]: ...


@dataclass(slots=True)
class StatusWriter:
    """Patches the status subresource of our own kinds."""

    client: CachedClient
    field_manager: str
    clock: Callable[[], datetime]

    async def write(
        self, mapping: RESTMapping, entry: Entry, before: Status, after: Status
    ) -> bool:
        """Patch the difference between two statuses. Returns whether anything was written.

        What is written for is at work, so a condition Paused ends with it. The patch carries the
        object's UID, so a successor of the same name is not written to.
        """
        self._resume(after.conditions, entry)
        changed = difference(status_fields(before), status_fields(after))
        if not changed:
            return False
        return await self._patch(mapping, entry, changed)

    async def refuse(
        self, mapping: RESTMapping, entry: Entry, condition: str, error: ValidationError
    ) -> None:
        """Say in a condition that the object cannot be read as its kind; nothing else is done."""
        conditions, handled = _stored(entry), requested(entry.annotations)
        refused = _condition(condition, "False", "InvalidSpec", describe(error), entry)
        changed = set_condition(conditions, refused, self.clock())
        changed |= self._resume(conditions, entry)
        if changed or handled != (entry.field("status") or {}).get("lastHandledReconcile", ""):
            after = {**_on_wire(conditions), "lastHandledReconcile": handled or None}
            await self._patch(mapping, entry, after)

    async def pause(self, mapping: RESTMapping, entry: Entry) -> None:
        """Say in a condition that nothing is done while the object is paused: one write, once."""
        conditions = _stored(entry)
        message = (
            f"The annotation {PAUSED} stops all work on this object. Remove it to go on; until "
            "then the rest of this status says how things were."
        )
        paused = _condition(PAUSED_CONDITION, "True", "PausedByAnnotation", message, entry)
        if set_condition(conditions, paused, self.clock()):
            await self._patch(mapping, entry, _on_wire(conditions))

    def _resume(self, conditions: Conditions, entry: Entry) -> bool:
        paused = find_condition(conditions, PAUSED_CONDITION)
        if paused is None or paused.status != "True":
            return False
        resumed = _condition(PAUSED_CONDITION, "False", "NotPaused", "Work goes on.", entry)
        return set_condition(conditions, resumed, self.clock())

    async def _patch(self, mapping: RESTMapping, entry: Entry, changed: Manifest) -> bool:
        patch = {"metadata": {"uid": entry.uid}, "status": changed}
        try:
            await self.client.patch(
                mapping,
                entry.name,
                entry.namespace or None,
                patch,
                type=PatchType.MERGE,
                subresource="status",
                field_manager=self.field_manager,
            )
        except NotFound:
            return False
        return True


def _stored(entry: Entry) -> Conditions:
    """The conditions of an object that may not be readable as its kind."""
    status: Manifest = entry.field("status") or {}
    return [Condition.model_validate(item) for item in status.get("conditions") or ()]


def _on_wire(conditions: Conditions) -> Manifest:
    return {"conditions": [item.to_wire(exclude_unset=False) for item in conditions]}


def _condition(kind: str, status: str, reason: str, message: str, entry: Entry) -> Condition:
    return Condition.model_validate(
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": entry.generation,
        }
    )


def describe(error: ValidationError) -> str:
    """What is wrong, by place, without any value."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5]]
    return "; ".join(places)[:1024]


def status_fields(status: Status) -> dict[str, Any]:
    """A status as it stands on the wire."""
    return status.to_wire(exclude_unset=False)
