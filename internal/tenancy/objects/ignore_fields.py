"""Fields that keep their live value once the object exists: `ignoreFields` as JSONPath.

Resources with `creationPolicy: Once` are never written again, so nothing is left to ignore there.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ctrlruntime.json import Json
from internal.tenancy.objects.path_errors import IgnoreFieldError

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath

Manifest = dict[str, Any]
Location = tuple[str | int, ...]

MATCH_KEYS = (
    "name",
    "containerPort",
    "port",
    "mountPath",
    "devicePath",
    "topologyKey",
    "ip",
    "key",
)
"""Fields by which the items of a list are distinguished; without one, items are matched by place."""

MOST_PATHS: Final = 100
"""Paths of one resource."""
_FORBIDDEN = frozenset({("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")})
_ABSENT: Any = object()


def check(paths: Sequence[str]) -> list[str]:
    """Return what is wrong with the paths, one sentence each."""
    problems: list[str] = []
    if len(paths) > MOST_PATHS:
        return [_too_many(paths)]
    for path in paths:
        try:
            _compiled(path)
        except IgnoreFieldError as error:
            problems.append(str(error))
    return problems


def preserve(
    desired: Mapping[str, Any],
    live: Mapping[str, Any],
    paths: Sequence[str],
    *,
    add_missing: bool = False,
) -> Manifest:
    """Return the desired object with live values wherever a path matches. Raises IgnoreFieldError.

    Every match is written from its own source: list items are paired by their key field, else by
    place. A field that the desired object does not have stays absent, unless `add_missing` is set,
    as a full update needs it. A field that the live object does not have keeps its desired value.
    """
    made: Manifest = copy.deepcopy(dict(desired))
    for path in _allowed(paths):
        for match in _compiled(path).finditer(live):
            source = tuple(match.parts)
            if source and source not in _FORBIDDEN:
                _write(made, live, source, copy.deepcopy(match.obj), add_missing=add_missing)
    return made


def drift_paths(desired: Mapping[str, Any], paths: Sequence[str]) -> tuple[str, ...]:
    """Where the paths match in the desired object, as drift names leaves: `spec.containers[0].image`."""
    found = {
        _dotted(tuple(match.parts))
        for path in _allowed(paths)
        for match in _compiled(path).finditer(desired)
    }
    return tuple(sorted(found - {""}))


def _allowed(paths: Sequence[str]) -> Sequence[str]:
    if len(paths) > MOST_PATHS:
        raise IgnoreFieldError(_too_many(paths))
    return paths


def _too_many(paths: Sequence[str]) -> str:
    return f"ignoreFields: there are {len(paths)} paths; write at most {MOST_PATHS}, with [*] or a filter for several fields"


def _dotted(location: Location) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _compiled(path: str) -> JSONPath | CompoundJSONPath:
    from internal.tenancy.objects.json_paths import compiled  # few templates have such paths

    return compiled(path)


def _write(
    made: Manifest, live: Mapping[str, Any], source: Location, value: object, *, add_missing: bool
) -> None:
    target: Any = made
    origin: Any = live
    for part in source[:-1]:
        target = _paired(target, origin, part)
        origin = origin[part]
        if target is _ABSENT:
            return
    last = source[-1]
    if isinstance(target, dict) and isinstance(last, str):
        if add_missing or last in target:
            target[last] = value
    elif isinstance(target, list) and isinstance(last, int):
        place = _place(target, origin, last)
        if place is not None:
            target[place] = value


def _paired(target: object, origin: object, part: str | int) -> Json:
    if isinstance(target, dict) and isinstance(part, str):
        return target.get(part, _ABSENT)
    if isinstance(target, list) and isinstance(origin, list) and isinstance(part, int):
        place = _place(target, origin, part)
        return _ABSENT if place is None else target[place]
    return _ABSENT


def _place(target: list[Any], origin: list[Any], place: int) -> int | None:
    """Where in the desired list the live item at `place` has its like."""
    item = origin[place]
    if isinstance(item, Mapping):
        for key in MATCH_KEYS:
            if key in item:
                same = (
                    i
                    for i, other in enumerate(target)
                    if isinstance(other, Mapping) and other.get(key) == item[key]
                )
                return next(same, None)
    return place if place < len(target) else None
