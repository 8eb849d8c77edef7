"""What users say about containers and volumes, merged into ours as a strategic merge patch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.client.strategic import PatchError, strategic_merge
from ctrlruntime.controller.failures import UnrecoverableError

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
        """A member; None for one that holds no lists to be merged."""
        return self.fields.get(name)

    def item(self) -> ListOrMap:
        """The items of a list, whose members are told in place."""
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
    """A Pod's spec with users' containers, init containers and volumes.

    One of a name we use is merged into ours, others come after ours in the order given. A volume whose
    source is another replaces ours. `place` is the field that the lists are of, for the error.

    Raises UnrecoverableError for lists that cannot be merged.
    """
    made = dict(spec)
    for name, given in theirs.items():
        if not given:
            continue
        ours = [item.get("name") for item in made.get(name, [])]
        added = [item["name"] for item in given if item.get("name") not in [*ours, None]]
        patch = {
            name: [_whole(item) for item in given] if name == "volumes" else given,
            f"{_ORDER}{name}": [{"name": each} for each in [*ours, *added]],
        }
        try:
            made = strategic_merge(made, patch, POD_SPEC)
        except PatchError as error:
            raise UnrecoverableError(f"{place}.{name} cannot be merged: {error}") from error
    return made


def _whole(volume: dict[str, Any]) -> dict[str, Any]:
    """A volume has one source, so that of the volume given goes in place of another."""
    if _RETAIN in volume or _PATCH in volume:
        return volume
    return {**volume, _RETAIN: list(volume)}
