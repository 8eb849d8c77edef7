"""Which fields a planned write sets back. Pure."""

from __future__ import annotations

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.json import Json
from ctrlruntime.resources.diff import Reason
from ctrlruntime.resources.drift import Location, dotted, missing_locations, not_ignored
from ctrlruntime.resources.dry_run import PlannedWrite
from ctrlruntime.resources.field_changes import FieldChange


def lost_fields(write: PlannedWrite) -> list[FieldChange]:
    """Return the fields that another writer changed or removed, with what they are set to."""
    if write.desired is None or write.entry is None:
        return []
    body = write.desired.body(write.owner)
    if write.reason is Reason.TRACKING:
        return _records(write, body)
    missing = missing_locations(body, write.entry.owned)
    return [
        FieldChange(dotted(each), after=_value_at(body, each), restored=True)
        for each in not_ignored(missing, write.desired.ignored)
    ]


def _records(write: PlannedWrite, body: Manifest) -> list[FieldChange]:
    """Return the labels and annotations of the object that are not those that are applied."""
    if write.entry is None:
        return []
    found: list[FieldChange] = []
    for name, live in (("labels", write.entry.labels), ("annotations", write.entry.annotations)):
        for key, value in (body["metadata"].get(name) or {}).items():
            if live.get(key) != value:
                found.append(FieldChange(f"metadata.{name}[{key!r}]", live.get(key), value))
    return found


def _value_at(body: Json, location: Location) -> Json:
    for part in location:
        body = body[part]
    return body
