"""What an API server holds in the end, without what differs between two runs that end alike."""

from __future__ import annotations

import re
from typing import Any, Final

from ctrlruntime.envtest.server.storage import Record, Storage

_LEFT_OUT: Final = ("leases.", "events", "customresourcedefinitions.")
_METADATA: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "name"}
)
_TIME: Final = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")

State = dict[str, list[Any]]


def counts(resource: str) -> bool:
    """Whether objects of a resource belong to the state: leases and events are about the way there."""
    return not resource.startswith(_LEFT_OUT)


def state_of(storage: Storage, since: int = 0) -> State:
    """Return all objects that were written after the revision `since`, by kind, namespace and name.

    Times become ``<time>``, UIDs the names of their objects, generated names ``<prefix>*``; an observed
    generation becomes whether it is the current one.
    """
    records = [
        (bucket.resource, record)
        for bucket in storage
        if counts(bucket.resource)
        for record in bucket.scan()
        if record.revision > since
    ]
    names = {record.uid: f"<{_key(resource, record)}>" for resource, record in records}
    state: State = {}
    for resource, record in records:
        state.setdefault(_key(resource, record), []).append(_plain(record, names))
    for alike in state.values():
        alike.sort(key=repr)
    return dict(sorted(state.items()))


def _key(resource: str, record: Record) -> str:
    metadata = record.obj["metadata"]
    generated = metadata.get("generateName")
    name = f"{generated}*" if generated else record.name
    return f"{resource}/{record.namespace}/{name}".replace("//", "/")


def _plain(record: Record, names: dict[str, str]) -> object:
    obj = record.load()
    generation = obj["metadata"].get("generation")
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _METADATA}
    obj["metadata"] = metadata
    return _walk(obj, names, generation)


def _walk(value: object, names: dict[str, str], generation: object) -> object:
    if isinstance(value, dict):
        return {
            key: _observed(inner, generation)
            if key == "observedGeneration"
            else _walk(inner, names, generation)
            for key, inner in sorted(value.items())
        }
    if isinstance(value, list):
        return [_walk(inner, names, generation) for inner in value]
    if isinstance(value, str):
        return "<time>" if _TIME.match(value) else names.get(value, value)
    return value


def _observed(value: object, generation: object) -> str:
    return "<current>" if value == generation else "<older>"


def difference(expected: State, found: State, expected_is: str) -> str:
    """Return what differs, one line each; empty where nothing does. `expected_is` names the first state."""
    lines = []
    for key in sorted({*expected, *found}):
        before, after = expected.get(key), found.get(key)
        if before is None:
            lines.append(f"{key}: is there; {expected_is}: is not")
        elif after is None:
            lines.append(f"{key}: is missing; {expected_is}: is there")
        elif before != after:
            lines += [
                f"{key}{at}: {new!r}; {expected_is}: {old!r}"
                for at, old, new in _differences(before, after)
            ]
    return "\n".join(lines)


def _differences(before: object, after: object, at: str = "") -> list[tuple[str, object, object]]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            each
            for key in sorted({*before, *after})
            for each in _differences(before.get(key), after.get(key), f"{at}.{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            each
            for number, (old, new) in enumerate(zip(before, after, strict=True))
            for each in _differences(old, new, at if len(before) == 1 else f"{at}[{number}]")
        ]
    return [] if before == after else [(at, before, after)]
