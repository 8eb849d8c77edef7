"""Conversion by field: what two versions share goes over, and an annotation keeps the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import Resource

__all__ = ["KEPT", "convert_fields"]

KEPT: Final = "conversion.ctrlruntime.dev/kept"
"""Annotation: by version, the fields of it that the version it is on has no place for."""

_HEAD: Final = frozenset({"apiVersion", "kind", "metadata"})
R = TypeVar("R", bound=Resource[Any, Any])
Kept = list[Any]
"""``[path, value]`` of a field that the other version lacks, ``[path, value, shown]`` of one that it shows otherwise."""


def convert_fields(
    source: Resource[Any, Any], target: type[R], *, moved: Mapping[str, str] | None = None
) -> R:
    """Return ``source`` as the version ``target`` of its kind: for ``to_hub`` and ``from_hub``.

    Fields of the same name go over, and those of another name or place by ``moved``, from path to path:
    ``{"spec.size": "spec.storage.size"}``; the conversion back has it the other way round. Those that ``target`` has
    no place for are kept in an annotation, and come back with the conversion back, unless what they belong to was
    changed or removed meanwhile. Raises pydantic.ValidationError where ``target`` refuses a field, such as a required
    one that ``source`` lacks, and ValueError for a field that is moved into what is no object.
    """
    manifest = source.to_manifest()
    metadata = dict(manifest.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    kept = _decode(annotations.pop(KEPT, ""))
    data = {key: value for key, value in manifest.items() if key not in _HEAD}
    for entry in kept.pop(target.gvk().version, ()):
        _restore(data, *entry)
    _move(data, moved or {})
    result = target.from_manifest({**data, "metadata": metadata})
    if lost := list(_lost(data, result.to_manifest())):
        kept[source.gvk().version] = lost
    if kept:
        annotations[KEPT] = orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()
    result.metadata.annotations = annotations
    return result


def _move(data: Manifest, moved: Mapping[str, str]) -> None:
    """Move values from path to path, all at once: fields may change places. What that leaves empty goes."""
    taken = [(path, *_take(data, source.split("."))) for source, path in moved.items()]
    for path, is_there, value in taken:
        *parents, key = path.split(".")
        place: Any = data
        for parent in parents if is_there else ():
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ValueError(f"{path}: {parent} is no object that a field could be moved into")
        if is_there:
            place[key] = value


def _take(data: Any, path: Sequence[str]) -> tuple[bool, Any]:  # noqa: ANN401 - JSON
    """Take a value out of the data: whether it was there, and the value."""
    key, *rest = path
    if not isinstance(data, dict) or key not in data:
        return False, None
    if not rest:
        return True, data.pop(key)
    found = _take(data[key], rest)
    if found[0] and data[key] == {}:
        del data[key]
    return found


def _decode(text: str) -> dict[str, list[Kept]]:
    """Return what an annotation keeps; nothing of one that was changed by hand beyond recognition."""
    try:
        found = orjson.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        version: [entry for entry in entries if _is_entry(entry)]
        for version, entries in found.items()
        if isinstance(entries, list)
    }


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) in (2, 3)
        and isinstance(entry[0], list)
        and bool(entry[0])
        and all(isinstance(key, str) for key in entry[0])
    )


def _lost(data: Any, shown: Any, path: Sequence[str] = ()) -> Iterator[Kept]:  # noqa: ANN401 - JSON
    """Yield what of ``data`` is not in ``shown``."""
    if isinstance(data, dict) and isinstance(shown, dict):
        for key, value in data.items():
            if key in shown:
                yield from _lost(value, shown[key], (*path, key))
            else:
                yield [[*path, key], value]
    elif data != shown:
        yield [list(path), data, shown]


def _restore(data: Manifest, path: Sequence[str], value: object, *shown: object) -> None:
    """Put a kept value back, unless what it belongs to is gone or was given another value."""
    *parents, key = path
    place: Any = data
    for parent in parents:
        place = place.get(parent) if isinstance(place, Mapping) else None
    if not isinstance(place, dict):
        return
    if not shown:
        place.setdefault(key, value)
    elif key in place:
        place[key] = _again(place[key], value, shown[0])


def _again(now: object, value: object, shown: object) -> object:
    """Return what a value of the other version is again: of a list, each item that is still as it was shown."""
    if now == shown:
        return value
    if not (isinstance(now, list) and isinstance(value, list) and isinstance(shown, list)):
        return now
    left = list(zip(shown, value, strict=False))
    result = []
    for item in now:
        match = next((pair for pair in left if pair[0] == item), None)
        if match is not None:
            left.remove(match)
        result.append(item if match is None else match[1])
    return result
