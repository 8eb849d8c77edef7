"""Which fields a planned write sets back. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.json import Json
from ctrlruntime.resources.diff import Reason
from ctrlruntime.resources.drift import missing_leaves
from ctrlruntime.resources.dry_run import PlannedWrite
from ctrlruntime.resources.field_changes import FieldChange


def lost_fields(write: PlannedWrite) -> list[FieldChange]:
    """Return the fields that another writer changed or removed, with what they are set to."""
    if write.desired is None or write.entry is None:
        return []
    body = write.desired.body(write.owner)
    if write.reason is Reason.TRACKING:
        return _records(write, body)
    missing = missing_leaves(body, write.entry.owned)
    ignored = write.desired.ignored
    return [
        FieldChange(path, after=_value_at(body, path), restored=True)
        for path in missing
        if not any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in ignored)
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


def _value_at(body: object, path: str) -> Json:
    """Return the value at a path of `missing_leaves`, whose keys may contain dots; None if unclear."""
    if not path:
        return body
    if isinstance(body, list) and path.startswith("["):
        number, _, rest = path[1:].partition("]")
        return _value_at(body[int(number)], rest.removeprefix(".")) if number.isdecimal() else None
    if not isinstance(body, Mapping):
        return None
    for key, value in body.items():
        if path == key:
            return value
        if path.startswith((f"{key}.", f"{key}[")):
            found = _value_at(value, path.removeprefix(key).removeprefix("."))
            if found is not None:
                return found
    return None
