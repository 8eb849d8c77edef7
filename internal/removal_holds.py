"""What a parent holds back: its condition, its approval, and the record of what went, in its status or lost with it.

A parent is the object whose members a gate counts: a set of nodes, an Instance, a FleetConfig. Its
annotation ``<group>/allow-delete`` approves the set whose digest the condition DeletionsHeld shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

from ctrlruntime.api import Condition, Manifest, RESTMapping, format_time, parse_time
from ctrlruntime.api.conditions import Conditions, find_condition, new_condition, set_condition
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Conflict
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.reads import Reader
from ctrlruntime.gate import Approval, BudgetRecord, Hold, ParentState, RecordChanged
from ctrlruntime.gate.budget import HOUR

HELD: Final = "DeletionsHeld"
"""Condition of a parent: True while deletions wait for an approval."""
_DIGEST: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
UNKNOWN_SINCE: Final = "removalsUnknownSince"
"""Field of a status: when it was found without its record of removals."""
_LONGEST: Final = 40
"""Characters of an annotation that a message repeats."""


def allow_delete(group: str) -> str:
    """Return the annotation that approves a held set on a parent of an API group."""
    return f"{group}/allow-delete"


def approval_error(annotation: str | None) -> str:
    """Return why the annotation can approve nothing, whatever is held; empty if it is a digest or absent."""
    if annotation is None or _DIGEST.fullmatch(annotation):
        return ""
    return (
        f"allow-delete must be the digest that the condition {HELD} shows, 16 hex digits, not "
        f"{annotation[:_LONGEST]!r}: it approves nothing"
    )


def refused_approval(annotation: str | None, digest: str, used: Collection[str]) -> str:
    """Return why the annotation does not approve the set with this digest; empty if it does, or is absent."""
    if annotation is None or annotation == digest:
        return ""
    if annotation in used:
        return f"allow-delete ({annotation}) was used before, and an approval counts once"
    wrong = approval_error(annotation)
    return wrong or f"allow-delete approves another set ({annotation}), not this one"


def approvals_of(annotations: Mapping[str, str], group: str) -> tuple[Approval, ...]:
    """Return the approval on a parent, if there is one."""
    text = annotations.get(allow_delete(group))
    return (Approval(text),) if text is not None and _DIGEST.fullmatch(text) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A parent, in the words of a command."""

    mapping: RESTMapping
    name: str
    namespace: str = ""
    """Empty for a cluster-scoped object."""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def approval(self) -> str | None:
        """The text of the annotation that approves."""
        return self.annotations.get(allow_delete(self.mapping.gvk.group))

    def command(self, digest: str) -> str:
        """Return the command that approves a set."""
        kind, group = self.mapping.gvk.kind.lower(), self.mapping.gvk.group
        place = f" -n {self.namespace}" if self.namespace else ""
        return (
            f"kubectl annotate {kind} {self.name}{place} --overwrite {allow_delete(group)}={digest}"
        )

    def message(self, hold: Hold) -> str:
        """Return what is held and why, and what to do."""
        wrong = refused_approval(self.approval, hold.digest, hold.used)
        refusal = f" {wrong}." if wrong else ""
        return f"{hold.message}.{refusal} If this is meant, run `{self.command(hold.digest)}`"


def report_held(
    conditions: Conditions, parent: Parent, hold: Hold | None, *, generation: int, now: datetime
) -> bool:
    """Record the condition DeletionsHeld; none before the first hold. Return whether it is news for an event."""
    before = find_condition(conditions, HELD)
    if hold is None and before is None:
        return False
    after = held_condition(parent, hold, generation)
    set_condition(conditions, after, now)
    return is_news(before, after)


def is_news(before: Condition | None, after: Condition | None) -> bool:
    """Whether the condition DeletionsHeld shows something that it did not show before."""
    if after is None or after.status != "True":
        return False
    return before is None or before.status != "True" or before.message != after.message


def held_condition(parent: Parent, hold: Hold | None, generation: int) -> Condition:
    """Return the condition DeletionsHeld."""
    if hold is None:
        return nothing_held(generation)
    return new_condition(HELD, True, "Held", parent.message(hold), generation=generation)


def nothing_held(generation: int) -> Condition:
    """Return the condition DeletionsHeld where nothing waits any more."""
    return new_condition(HELD, False, "NothingHeld", "No deletion waits.", generation=generation)


def held_message(status: Mapping[str, Any] | None) -> str:
    """Return what the condition DeletionsHeld of a stored status shows; empty: nothing is held."""
    for each in (status or {}).get("conditions") or ():
        if each.get("type") == HELD and each.get("status") == "True":
            return str(each.get("message", ""))
    return ""


@dataclass(slots=True)
class StatusRecords:
    """The record of one parent in `status.removals`; a RecordStore.

    `state` returns what the gate needs to know of the parent as it was read, but approvals and record. Where an
    older status was put back, the record is reported as lost before anything is decided.
    """

    patcher: ObjectPatcher
    mapping: RESTMapping
    name: str
    namespace: str
    uid: str
    state: Callable[[Mapping[str, Any]], ParentState]
    clock: Callable[[], datetime]
    counted: tuple[Approval, ...] | None = None
    """The approvals that count of those that the caller has read; None: all that are there."""
    windowed: bool = True
    """Whether the status has `removalsUnknownSince`, as of a parent whose members a budget counts."""
    _read: BudgetRecord = field(init=False, default_factory=BudgetRecord)
    _saved: int = field(init=False, default=0)

    async def load(self) -> tuple[ParentState, str]:
        """Return what is known of the parent, read live, and its version.

        Raises RecordChanged where it is gone, another object has its name, or older records are put back all the time.
        """
        for _ in range(2):
            found = await _live(self.patcher, self.mapping, self.name, self.namespace, self.uid)
            if found is None:
                raise RecordChanged
            removals = (found.get("status") or {}).get("removals") or {}
            self._read, self._saved = BudgetRecord.of(removals), removals.get("saved") or 0
            annotations = found["metadata"].get("annotations") or {}
            version: str = found["metadata"]["resourceVersion"]
            if is_put_back(found, self.patcher.field_manager):
                await self._report_loss(annotations, version)
                continue
            approvals = approvals_of(annotations, self.mapping.gvk.group)
            if self.counted is not None:
                approvals = tuple(each for each in approvals if each in self.counted)
            return replace(self.state(found), approvals=approvals, record=self._read), version
        raise RecordChanged

    async def save(self, record: dict[str, dict[str, int]], version: str) -> None:
        """Store the record. Raises RecordChanged if the parent has another version, or is gone."""
        before = self._read.to_dict()
        removals: dict[str, Any] = {
            part: {**dict.fromkeys(before.get(part, ())), **record.get(part, {})}
            for part in before.keys() | record.keys()
        }
        await self._store({}, removals, version)

    async def _report_loss(self, annotations: Mapping[str, str], version: str) -> None:
        """Store that it is unknown what went before; the approval that is there may have been used."""
        now = self.clock()
        lost = lost_record(annotations, self.mapping.gvk.group, now)
        fields = {UNKNOWN_SINCE: format_time(now)} if self.windowed else {}
        await self._store(fields, {"used": dict(lost.used)}, version)

    async def _store(
        self, fields: Mapping[str, Any], removals: Mapping[str, Any], version: str
    ) -> None:
        saved = another_time(self.clock(), self._saved)
        try:
            there = await self.patcher.patch_status(
                self.mapping,
                self.name,
                {**fields, "removals": {**removals, "saved": saved}},
                namespace=self.namespace,
                uid=self.uid,
                resource_version=version,
            )
        except Conflict as error:
            raise RecordChanged from error
        if not there:
            raise RecordChanged


async def _live(
    patcher: ObjectPatcher, mapping: RESTMapping, name: str, namespace: str, uid: str
) -> Manifest | None:
    """Return an object as the server has it, with its managedFields; None if it is gone, or another has its name."""
    # Not of the cache, which may be behind and has no managedFields; an account that watches may list.
    listed = await Reader.list(
        patcher.client, mapping, namespace or None, fields=f"metadata.name={name}"
    )
    return next((each for each in listed if each["metadata"]["uid"] == uid), None)


# -- a record that is lost -----------------------------------------------------------------------------


def has_no_record(entry: Entry, record: str = "") -> bool:
    """Whether the status is empty or of another life of the object: new, wiped, or restored from a backup. Pure."""
    return is_without_record(entry.field("status"), entry.generation, record)


def is_without_record(status: Mapping[str, Any] | None, generation: int, record: str = "") -> bool:
    """Whether a status is empty, its field `record` was never saved, or it is of another life of the object with this generation. Pure."""
    observed: int | None = (status or {}).get("observedGeneration")
    lacks = bool(record) and "saved" not in ((status or {}).get(record) or {})
    return observed is None or observed > generation or lacks


def is_put_back(found: Mapping[str, Any], own: str) -> bool:
    """Whether another field manager than `own` wrote the record of removals last, as with an older status. Pure.

    The record has `saved`, another time with each write; before the first there is nothing that could be older.
    """
    saved = "saved" in ((found.get("status") or {}).get("removals") or {})
    writers = set()
    for each in found["metadata"].get("managedFields") or ():
        fields = ((each.get("fieldsV1") or {}).get("f:status") or {}).get("f:removals")
        if fields is not None and (not saved or "f:saved" in fields):
            writers.add(each.get("manager"))
    return own not in writers if saved else bool(writers - {own})


def another_time(now: datetime, saved: int) -> int:
    """Return the time of a write in seconds since 1970: an equal value would leave the field with whoever put it back. Pure."""
    seconds = ceil(now.timestamp())
    return seconds if seconds != saved else seconds + 1


def lost_record(annotations: Mapping[str, str], group: str, now: datetime) -> BudgetRecord:
    """Return what stands for a record that is lost: the approval that is there may have been used. Pure."""
    approvals = approvals_of(annotations, group)
    return BudgetRecord(used={each.digest: ceil(now.timestamp()) for each in approvals})


def unknown_removals(since: datetime | None, now: datetime, window: timedelta) -> str:
    """Return why nothing goes without an approval after a loss at `since`; empty once a window has passed. Pure."""
    if since is None or since + window <= now:
        return ""
    return f"what went before {since:%Y-%m-%dT%H:%M:%SZ} is unknown, as the status was lost"


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Reports in `status.removalsUnknownSince` that a parent has members, and no record of what it lost before.

    A budget counts within a window: without its record all of the window counts as spent.
    """

    patcher: ObjectPatcher
    mapping: RESTMapping
    clock: Callable[[], datetime]
    used: Callable[[Mapping[str, int]], Manifest]
    """Returns the fields of a status that hold used approvals."""
    record: str = ""
    """The field that each status has from its beginning: a write beside a wipe puts only what it changes back."""

    async def report(self, entry: Entry, has_members: Callable[[], bool]) -> bool:
        """Begin the status of a parent that has none, before it gets its first member. Return whether to read it again.

        So a status that is missing where members are was lost: no crash leaves that behind. Raises the client's
        errors, and Conflict if the object was changed since it was read.
        """
        if not has_no_record(entry, self.record):
            return False
        status, now = entry.field("status") or {}, self.clock()
        since = status.get(UNKNOWN_SINCE)
        if since and parse_time(since) > now - HOUR and not has_no_record(entry):
            return False  # where the CRD of a version before drops `saved`, not in each pass
        fields: Manifest = {"observedGeneration": 0}
        if has_members():
            fields |= self._lost(entry.annotations, now)
        if self.record:
            before = (status.get(self.record) or {}).get("saved") or 0
            fields[self.record] = {
                **fields.get(self.record, {}),
                "saved": another_time(now, before),
            }
        return await self._store(entry, fields, entry.resource_version)

    async def report_older(self, entry: Entry) -> bool:
        """Report the record as lost if an older status was put back, as the server has it. Return whether to read it again, also where it is gone.

        Raises the client's errors, and Conflict if the object changes meanwhile.
        """
        found = await _live(self.patcher, self.mapping, entry.name, entry.namespace, entry.uid)
        if found is None:
            return True
        if not is_put_back(found, self.patcher.field_manager):
            return False
        metadata, now = found["metadata"], self.clock()
        before = ((found.get("status") or {}).get("removals") or {}).get("saved") or 0
        fields = self._lost(metadata.get("annotations") or {}, now)
        fields["removals"] = {**fields.get("removals", {}), "saved": another_time(now, before)}
        await self._store(entry, fields, metadata["resourceVersion"])
        return True

    def _lost(self, annotations: Mapping[str, str], now: datetime) -> Manifest:
        used = lost_record(annotations, self.mapping.gvk.group, now).used
        return {UNKNOWN_SINCE: format_time(now), **self.used(used)}

    async def _store(self, entry: Entry, fields: Manifest, version: str) -> bool:
        return await self.patcher.patch_status(
            self.mapping,
            entry.name,
            fields,
            namespace=entry.namespace,
            uid=entry.uid,
            resource_version=version,
        )
