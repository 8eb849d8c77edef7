"""Users' containers and volumes, merged into the manager's as a strategic merge patch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.client.strategic import PatchRefused, strategic_merge
from internal.cosmos.invalid import invalid_field

_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_PATCH: Final = "$patch"


@dataclass(frozen=True, slots=True)
class ListOrMap:
    """A part of a Pod's spec in the eyes of a strategic merge patch."""

    merge_key: str = ""
    strategies: frozenset[str] = frozenset()
    fields: Mapping[str, ListOrMap] = field(default_factory=dict)

    def field(self, name: str) -> ListOrMap | None:
        """Return a member; None for one that holds no lists to be merged."""
        return self.fields.get(name)

    def item(self) -> ListOrMap:
        """Return the items of a list, whose members are described in place."""
        return self


def _merged(key: str, *more: str, **fields: ListOrMap) -> ListOrMap:
    return ListOrMap(key, frozenset({"merge", *more}), fields)


_CONTAINERS = _merged(
    "name",
    env=_merged("name"),
    ports=_merged("containerPort"),
    volumeMounts=_merged("mountPath"),
    volumeDevices=_merged("devicePath"),
)
POD_SPEC: Final = ListOrMap(
    fields={
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "volumes": _merged("name", "retainKeys"),
    }
)
"""The lists that users add to, with the keys that the API merges them by."""


def with_theirs(
    spec: Mapping[str, Any], theirs: Mapping[str, list[dict[str, Any]]], place: str
) -> dict[str, Any]:
    """Return a Pod's spec with users' containers, init containers and volumes.

    One of a name we use is merged into the manager's, others follow in the order given; so do variables,
    mounts and ports within a container. A volume with another source replaces the manager's. `place` is the
    field that the lists are of, for the error.

    Raises InvalidSpec for lists that cannot be merged.
    """
    made = dict(spec)
    for name, given in theirs.items():
        if not given:
            continue
        whole = [_whole(item) for item in given] if name == "volumes" else given
        patch = _in_order(made, {name: whole}, POD_SPEC)
        try:
            made = strategic_merge(made, patch, POD_SPEC)
        except PatchRefused as error:
            raise invalid_field(f"{place}.{name}", f"cannot be merged: {error}") from error
    return made


def _in_order(ours: Mapping[str, Any], patch: dict[str, Any], schema: ListOrMap) -> dict[str, Any]:
    """Return the patch, which also keeps the manager's items first in lists that it adds to.

    Left to itself a strategic merge puts what is added in front; variables that refer to the manager's would not
    find them, and the first container is the one that `kubectl logs` shows.
    """
    made = dict(patch)
    for name, listed in schema.fields.items():
        given, key = patch.get(name) or [], listed.merge_key
        if not given or not _is_keyed(given, key):
            continue
        before = {item.get(key): item for item in ours.get(name) or []}
        made[name] = [_in_order(before.get(item[key]) or {}, item, listed) for item in given]
        order = f"{_ORDER}{name}"
        made.setdefault(order, [{key: each} for each in {**before, **_keys(given, key)}])
    return made


def _is_keyed(given: object, key: str) -> bool:
    """Whether it is a list of items with their key; what else it may be, the merge tells."""
    return isinstance(given, list) and all(
        isinstance(item, dict) and isinstance(item.get(key), str | int) for item in given
    )


def _keys(given: list[dict[str, Any]], key: str) -> dict[Any, None]:
    return {item[key]: None for item in given if item.get(_PATCH) != "delete"}


def _whole(volume: dict[str, Any]) -> dict[str, Any]:
    """Return the volume as a patch: it has one source, so that of the volume given replaces another."""
    if _RETAIN in volume or _PATCH in volume:
        return volume
    return {**volume, _RETAIN: list(volume)}
