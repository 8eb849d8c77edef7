"""What was added by hand to a Tenant's spec, and the patch that takes it out.

An apply takes back what others changed, and leaves what others added: a resource added to a list by
hand would stay, and be created for the tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apis.tenancy import TResource
from ctrlruntime.api.kinds import Manifest

_DEFAULTS: Final[Mapping[str, Any]] = TResource(id="x", spec={}).to_wire(exclude_unset=False)
"""What a server may add to an entry by itself."""

_EMPTY: Final[tuple[Any, ...]] = (None, [], {})

Path = tuple[str | int, ...]


def added_paths(live: Manifest, wanted: Manifest) -> list[Path]:
    """Places in a live spec that the wanted one lacks, those of one list from its end.

    Lists within a manifest are left out: the server tracks each as a whole, so an apply restores it.
    """
    found: list[Path] = []
    _compare((), live, wanted, found)
    return found


def removal_patch(version: str, paths: list[Path]) -> list[dict[str, Any]]:
    """Return a JSON patch of a Tenant that removes `paths` from its spec, if it is still of this version."""
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    return [test, *({"op": "remove", "path": _pointer(path)} for path in paths)]


def _compare(path: Path, live: object, wanted: object, found: list[Path]) -> None:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key, value in live.items():
            if key in wanted:
                _compare((*path, key), value, wanted[key], found)
            elif value not in _EMPTY and not _is_default(path, key, value):
                found.append((*path, key))
    elif len(path) == 1 and isinstance(live, list) and isinstance(wanted, list):
        entries = {item["id"]: item for item in wanted}
        for place in range(len(live) - 1, -1, -1):
            item = live[place]
            if item["id"] in entries:
                _compare((*path, place), item, entries[item["id"]], found)
            else:
                found.append((*path, place))


def _is_default(path: Path, key: str, value: object) -> bool:
    """Whether it is a field of an entry with the value that the server gives it."""
    return len(path) == 2 and key in _DEFAULTS and _DEFAULTS[key] == value


def _pointer(path: Path) -> str:
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return "/spec/" + "/".join(parts)
