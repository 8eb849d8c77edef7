"""Reports of an object whose approvals count and which do not: in its status, a condition and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson

from apis.approvals import ApprovalGiven, ApprovalsStatus
from ctrlruntime.api import Condition, RESTMapping
from ctrlruntime.api.conditions import (
    conditions_of,
    conditions_to_wire,
    find_condition,
    list_sentences,
    new_condition,
    set_condition,
)
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Conflict
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.events.recorder import EventType
from ctrlruntime.json import Json
from ctrlruntime.queue import Request
from internal.approvals.counted import COUNT, STATUS, ApprovalView, Entries
from internal.approvals.judge import Counted, Judgement

AGAIN: Final = 0.2
"""Seconds until the status is written again that another has changed meanwhile."""
MOST: Final = 64
"""Approvals that a status has."""
ACTION: Final = "Approve"
"""What events are about."""


@dataclass(slots=True)
class ApprovalsReconciler:
    """Keeps the status of one object's approvals. What counts does not depend on that: it is judged at each read."""

    entries: Entries
    view: ApprovalView
    mapping: RESTMapping
    patcher: ObjectPatcher
    events: EventRecorder
    clock: Callable[[], datetime]

    async def reconcile(self, request: Request) -> Result | None:
        """Make one pass. Raises the client's errors."""
        entry = self.entries.get(request.name, namespace=request.namespace)
        if entry is None:
            return None
        found = self.view.judgement(entry)
        if found is None:
            return None
        notes = self._notes(entry, found)
        if changes := self._changes(entry, found):
            try:
                await self.patcher.patch_status(
                    self.mapping,
                    entry.name,
                    changes,
                    namespace=entry.namespace,
                    resource_version=entry.resource_version,
                )
            except Conflict:
                return Result(requeue_after=AGAIN)
        for kind, reason, note in notes:
            self.events.event(entry, kind, reason, ACTION, note)
        return None

    def _changes(self, entry: Entry, found: Judgement) -> Mapping[str, Json]:
        """Return what of the status changes."""
        status = entry.field("status") or {}
        changes: dict[str, Json] = {}
        before, wanted = status.get(STATUS), _status(found, status.get(STATUS) or {})
        if before != wanted:
            changes[STATUS] = _replacing(before, wanted)
        conditions = conditions_of(status)
        known = find_condition(conditions, COUNT)
        if (found.policy is not None or known is not None) and set_condition(
            conditions, condition_of(found, entry.generation), self.clock()
        ):
            changes["conditions"] = conditions_to_wire(conditions)
        return changes

    def _notes(self, entry: Entry, found: Judgement) -> list[tuple[EventType, str, str]]:
        """Return type, reason and note of an event for everything that is news."""
        status = entry.field("status") or {}
        known = find_condition(conditions_of(status), COUNT)
        there = "" if known is None else known.message
        notes: list[tuple[EventType, str, str]] = [
            ("Normal", "Approved", f"{each.by} approved {each.annotation}={each.item}")
            for each in found.counted
            if _words(each) not in there
        ]
        now = condition_of(found, entry.generation)
        if found.refusals and (known is None or known.message != now.message):
            notes.append(("Warning", "ApprovalNotCounted", now.message))
        return notes


def condition_of(found: Judgement, generation: int) -> Condition:
    """Return the condition of what counts."""
    if found.refusals:
        message = list_sentences("Not in force", found.refusals)
        return new_condition(COUNT, False, "NotCounted", message, generation=generation)
    if found.policy is None:
        text = "Approvals of everyone who may write them count."
        return new_condition(COUNT, True, "NoneRequired", text, generation=generation)
    given = [_words(each) for each in found.counted]
    text = f"Approvals by members of {found.policy} count."
    message = list_sentences(text.rstrip("."), given) if given else text
    return new_condition(
        COUNT, True, "Counted" if given else "NoneGiven", message, generation=generation
    )


def _words(counted: Counted) -> str:
    """Return an approval in words."""
    return f"{counted.annotation}={counted.item} by {counted.by}"


def _status(found: Judgement, before: Mapping[str, Json]) -> Json:
    """Return the field of the status; None: none."""
    if found.protection is None:
        return None
    made = ApprovalsStatus(
        protection=orjson.dumps(found.protection, option=orjson.OPT_SORT_KEYS).decode(),
        generation=found.since,
        given=[
            ApprovalGiven(
                annotation=each.annotation,
                value=each.item,
                by=each.by,
                at=datetime.fromtimestamp(each.at, UTC),
            )
            for each in found.counted
        ],
    ).to_wire()
    made["given"] = _merged(before.get("given") or (), made.get("given") or ())
    return {name: value for name, value in made.items() if value not in ("", [], None)}


def _merged(before: Sequence[Json], now: Sequence[Json]) -> list[Json]:
    """Return the approvals of a status: those of now after those from before, which were used since."""
    return [*(each for each in before if each not in now), *now][-MOST:]


def _replacing(before: Json, wanted: Json) -> Json:
    """Return the merge patch that puts one value in the place of another."""
    if wanted is None or not isinstance(before, dict):
        return wanted
    return {**dict.fromkeys(before), **wanted}
