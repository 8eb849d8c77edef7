"""Fields that keep their live value once the object exists: `ignoreFields` as JSONPath.

Resources with `creationPolicy: Once` are never written again, so nothing is left to ignore there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from ctrlruntime.json import Json
from ctrlruntime.resources.drift import Location, dotted
from internal.tenancy.objects.path_errors import IgnoreFieldError
from internal.tenancy.shared.slices import MANY, beside_loop

Manifest = dict[str, Any]

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
MOST_CHARACTERS: Final = 4 * 2**20
"""Characters of the names of all fields that they match, each with those above it."""
_FORBIDDEN: Final = frozenset[Location](
    {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")}
)
_ABSENT: Any = object()


def check(paths: Sequence[str]) -> list[str]:
    """Return what is wrong with the paths, one sentence each."""
    problems: list[str] = []
    if len(paths) > MOST_PATHS:
        return [_too_many(paths)]
    for path in paths:
        from internal.tenancy.objects.json_paths import compiled  # few templates have such paths

        try:
            compiled(path)
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
    kept = _Kept(copy.deepcopy(dict(desired)), live)
    for source, value in _outermost(_matched(live, paths), _FORBIDDEN):
        kept.write(source, value, add_missing=add_missing)
    return kept.made


def drift_paths(desired: Mapping[str, Any], paths: Sequence[str]) -> tuple[str, ...]:
    """Where the paths match in the desired object, as drift names leaves: `spec.containers[0].image`.

    What is within another match is left out. Raises IgnoreFieldError.
    """
    found = [location for location, _ in _outermost(_matched(desired, paths), frozenset())]
    characters = sum(len(part) for each in found for part in each if isinstance(part, str))
    if characters > MOST_CHARACTERS:
        raise IgnoreFieldError(
            f"ignoreFields: the paths match fields whose names have {characters} characters together, more than "
            f"{MOST_CHARACTERS}; write the path of what holds them"
        )
    return tuple(sorted(map(dotted, found)))


async def preserve_beside(
    desired: Mapping[str, Any], live: Mapping[str, Any], paths: Sequence[str]
) -> Manifest:
    """Return what `preserve` does, from a thread where there is much to look at. Raises IgnoreFieldError."""
    return await beside_loop(_work(paths, desired, live), preserve, desired, live, paths)


async def drift_paths_beside(desired: Mapping[str, Any], paths: Sequence[str]) -> tuple[str, ...]:
    """Return what `drift_paths` does, from a thread where there is much to look at. Raises IgnoreFieldError."""
    if not paths:
        return ()
    return await beside_loop(_work(paths, desired), drift_paths, desired, paths)


def _work(paths: Sequence[str], *objects: Mapping[str, Any]) -> int:
    """Return about how many values the paths look at, counted no further than up to what is done in a thread."""
    broad = 1 + sum(".." in path or any(mark in path for mark in "*?:,|&") for path in paths)
    waiting: list[Any] = [*objects]
    count = 0
    while waiting and count * broad < MANY:
        each = waiting.pop()
        count += len(each)
        inside = each.values() if isinstance(each, Mapping) else each
        waiting += (value for value in inside if isinstance(value, Mapping | list))
    return count * broad


def _matched(value: Mapping[str, Any], paths: Sequence[str]) -> dict[Location, object]:
    """Return what all paths match, by where it is."""
    if not paths:
        return {}
    from internal.tenancy.objects.json_paths import compiled  # few templates have such paths
    from internal.tenancy.objects.path_matches import Work, matches

    work = Work()
    return {
        tuple(match.parts): match.obj
        for path in _allowed(paths)
        for match in matches(compiled(path), value, work)
    }


def _outermost(
    found: Mapping[Location, object], without: Set[Location]
) -> Iterator[tuple[Location, object]]:
    """Yield what is found, but for some places and the object itself, and is within nothing else of it."""
    covered: dict[Location, bool] = {(): False}

    def is_covered(location: Location) -> bool:
        known = covered.get(location)
        if known is None:
            known = (location in found and location not in without) or is_covered(location[:-1])
            covered[location] = known
        return known

    for location, value in found.items():
        if location and location not in without and not is_covered(location[:-1]):
            yield location, value


def _allowed(paths: Sequence[str]) -> Sequence[str]:
    if len(paths) > MOST_PATHS:
        raise IgnoreFieldError(_too_many(paths))
    return paths


def _too_many(paths: Sequence[str]) -> str:
    return f"ignoreFields: there are {len(paths)} paths; write at most {MOST_PATHS}, with [*] or a filter for several fields"


class _Kept:
    """The desired object while live values are written into it. Each place, and the key of each list item, is found once."""

    __slots__ = ("_containers", "_places", "made")

    def __init__(self, made: Manifest, live: Mapping[str, Any]) -> None:
        self.made = made
        self._containers: dict[Location, tuple[Any, Any]] = {(): (made, live)}
        """Objects and lists of the desired object and of the live one, by where the live one is."""
        self._places: dict[int, dict[tuple[str, Hashable], int]] = {}
        """Where a desired list has an item of a key and value, by its id: `_containers` holds it."""

    def write(self, source: Location, value: object, *, add_missing: bool) -> None:
        """Write a live value where the desired object has its like, if it has."""
        target, origin = self._container(source[:-1])
        last = source[-1]
        if isinstance(target, dict) and isinstance(last, str):
            if add_missing or last in target:
                target[last] = copy.deepcopy(value)
        elif isinstance(target, list) and isinstance(last, int):
            place = self._place(target, origin, last)
            if place is not None:
                target[place] = copy.deepcopy(value)

    def _container(self, source: Location) -> tuple[Any, Any]:
        known = self._containers.get(source)
        if known is None:
            target, origin = self._container(source[:-1])
            known = self._paired(target, origin, source[-1]), origin[source[-1]]
            self._containers[source] = known
        return known

    def _paired(self, target: object, origin: object, part: str | int) -> Json:
        if isinstance(target, dict) and isinstance(part, str):
            return target.get(part, _ABSENT)
        if isinstance(target, list) and isinstance(origin, list) and isinstance(part, int):
            place = self._place(target, origin, part)
            return _ABSENT if place is None else target[place]
        return _ABSENT

    def _place(self, target: list[Any], origin: list[Any], place: int) -> int | None:
        """Where in the desired list the live item at `place` has its like."""
        item = origin[place]
        if isinstance(item, Mapping):
            for key in MATCH_KEYS:
                if key in item:
                    return self._places_of(target).get((key, _comparable(item[key])))
        return place if place < len(target) else None

    def _places_of(self, target: list[Any]) -> dict[tuple[str, Hashable], int]:
        known = self._places.get(id(target))
        if known is None:
            known = self._places[id(target)] = {}
            for place, item in enumerate(target):
                for key in MATCH_KEYS if isinstance(item, Mapping) else ():
                    if key in item:
                        known.setdefault((key, _comparable(item[key])), place)
        return known


def _comparable(value: Json) -> Hashable:
    """Return the value of a key as one that a dict takes: equal ones are equal, objects and lists too."""
    return (json.dumps(value, sort_keys=True),) if isinstance(value, dict | list) else value
