"""Status writes: only on difference, only what differs; and what every status shows of pause and reconcile-now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from pydantic import ValidationError

from ctrlruntime.api.conditions import (
    Conditions,
    conditions_of,
    conditions_to_wire,
    find_condition,
    list_sentences,
    new_condition,
    set_condition,
)
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.patches import add_zeros, difference
from ctrlruntime.controller.annotations import PAUSED, requested

PAUSED_CONDITION: Final = "Paused"
"""Condition of every kind: there once the object was paused, True while it is."""

HANDLED: Final = "lastHandledReconcile"
"""Field of a status: the value of the annotation reconcile-now that was last handled."""


class Status(Protocol):
    """What statuses share."""

    conditions: Conditions

    def to_wire(self, *, exclude_unset: bool = True) -> dict[str, Any]: ...


@dataclass(slots=True)
class StatusWriter:
    """Patches the status subresource of custom resources with `observedGeneration` and `conditions`."""

    patcher: ObjectPatcher
    clock: Callable[[], datetime]

    async def write(
        self,
        mapping: RESTMapping,
        entry: Entry,
        before: Status,
        after: Status,
        *,
        only_if_unchanged: bool = False,
    ) -> bool:
        """Patch the difference between two statuses. Returns whether anything was written.

        What is written for is at work, so a condition Paused ends with it. The patch carries the
        object's UID, so a successor of the same name is not written to; with `only_if_unchanged` also
        its resourceVersion, and Conflict is raised if the object was changed since.
        """
        self.resume(after.conditions, entry)
        same = after == before  # nearly all at a restart: to write both out costs more
        wanted = {} if same else status_fields(after)
        changed = {} if same else difference(status_fields(before), wanted)
        if not changed:
            return False
        add_zeros(changed, wanted, entry.field("status") or {})
        version = entry.resource_version if only_if_unchanged else ""
        return await self._patch(mapping, entry, changed, version)

    async def refuse(
        self,
        mapping: RESTMapping,
        entry: Entry,
        condition: str,
        error: ValidationError,
        *,
        text: str = "",
    ) -> None:
        """Say in a condition that the object cannot be read as its kind; nothing else is done.

        `text`: of the error; default: every place of it.
        """
        status: Manifest = entry.field("status") or {}
        conditions, handled = conditions_of(status), requested(entry.annotations)
        text, generation = text or describe(error), entry.generation
        refused = new_condition(condition, "False", "InvalidSpec", text, generation=generation)
        changed = set_condition(conditions, refused, self.clock())
        changed |= self.resume(conditions, entry)
        changed |= status.get("observedGeneration") != generation
        if changed or handled != status.get("lastHandledReconcile", ""):
            after = {
                "conditions": conditions_to_wire(conditions),
                "observedGeneration": generation,
                "lastHandledReconcile": handled or None,
            }
            await self._patch(mapping, entry, after)

    async def pause(
        self,
        mapping: RESTMapping,
        entry: Entry,
        *,
        only_of_now: str = "",
        annotation: str = PAUSED,
        only_if_unchanged: bool = False,
    ) -> None:
        """Say in a condition that nothing is done while the object is paused: one write, once.

        The condition `only_of_now` does not stay True for a generation that it was not computed for.
        `only_if_unchanged`: as for `write`, where others write conditions of the object too.
        """
        conditions = conditions_of(entry.field("status") or {})
        message = (
            f"The annotation {annotation} stops all work on this object. Remove it to go on; until "
            "then the rest of this status shows the last known state."
        )
        if entry.deletion_timestamp is not None:
            message += " It is being deleted, which waits as well."
        paused = new_condition(
            PAUSED_CONDITION, "True", "PausedByAnnotation", message, generation=entry.generation
        )
        changed = set_condition(conditions, paused, self.clock())
        changed |= outdate(
            conditions, only_of_now, "PausedByAnnotation", entry.generation, self.clock()
        )
        if changed:
            version = entry.resource_version if only_if_unchanged else ""
            fields = {"conditions": conditions_to_wire(conditions)}
            await self._patch(mapping, entry, fields, version)

    async def acknowledge(
        self, mapping: RESTMapping, entry: Entry, handled: str, field: str = HANDLED
    ) -> bool:
        """End the pause of an object that was worked on, and report the request to reconcile that was handled.

        `handled`: the value of the annotation as the reconcile saw it; empty: there was none; `field`: of the
        status, where it is reported. Returns whether anything was written. Raises Conflict if conditions are written and the object was changed since it was read.
        """
        status: Manifest = entry.field("status") or {}
        is_paused = any(
            each.get("type") == PAUSED_CONDITION and each.get("status") == "True"
            for each in status.get("conditions") or ()
        )
        fields: Manifest = {}
        if handled and handled != status.get(field):
            fields[field] = handled
        if is_paused:
            conditions = conditions_of(status)
            self.resume(conditions, entry)
            fields["conditions"] = conditions_to_wire(conditions)
        if not fields:
            return False
        # A list of conditions takes the place of the one that is there: others write to it too.
        version = entry.resource_version if is_paused else ""
        return await self._patch(mapping, entry, fields, version)

    def resume(self, conditions: Conditions, entry: Entry) -> bool:
        """End the condition Paused, if it is there. Return whether that changed anything."""
        paused = find_condition(conditions, PAUSED_CONDITION)
        if paused is None or paused.status != "True":
            return False
        resumed = new_condition(
            PAUSED_CONDITION, "False", "NotPaused", "Work goes on.", generation=entry.generation
        )
        return set_condition(conditions, resumed, self.clock())

    async def _patch(
        self, mapping: RESTMapping, entry: Entry, changed: Manifest, version: str = ""
    ) -> bool:
        return await self.patcher.patch_status(
            mapping,
            entry.name,
            changed,
            namespace=entry.namespace,
            uid=entry.uid,
            resource_version=version,
        )


def outdate(conditions: Conditions, kind: str, reason: str, generation: int, now: datetime) -> bool:
    """Set a condition to False that is True for an earlier generation. Return whether it was."""
    before = find_condition(conditions, kind)
    if before is None or before.status != "True" or before.observed_generation == generation:
        return False
    message = "The last change of the spec has not been carried out."
    outdated = new_condition(kind, False, reason, message, generation=generation)
    return set_condition(conditions, outdated, now)


def describe(error: ValidationError) -> str:
    """Return what is wrong, by place, without any value."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return list_sentences(
        "", [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found]
    )


def status_fields(status: Status) -> dict[str, Any]:
    """Return a status as it stands on the wire."""
    return status.to_wire(exclude_unset=False)
