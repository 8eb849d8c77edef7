"""Fields of other managers that stand in place of own ones, and that an apply alone cannot remove. Pure.

An edit of the key of a list item (the port of a Service, the name of a container) or of the member of a union
(`value` to `valueFrom`) leaves a field of the editor where an own field was. An apply adds the own one again and
keeps the other: the server refuses both together, or both stay. An apply does remove what its manager applied
before, so the remedy is to record the other field as applied by this manager and then to apply: one atomic change,
which also creates no second entry of this manager in `managedFields`.

Not removed is what another manager applied, and what stands beside own fields but not in place of one.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.json import Json
from ctrlruntime.resources.keyed_items import KeyedItems

Fields: TypeAlias = dict[str, Any]
"""A `fieldsV1` document, or a part of it."""
Path: TypeAlias = tuple[str, ...]
"""Keys of a `fieldsV1` document from its root."""

_NOT_CONTENT: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_ALIKE: Final = 0.5
"""Share of an own item's values that an item has that replaced it."""
_ALIKE_UNOWNED: Final = 0.8
"""The same for an item that has no owner, as those that admission webhooks add."""
_MOST: Final = 50
"""Own items that are missing, and items with the same keys, up to which each is compared; beyond, the position decides."""
_PERSONS: Final = ("kubectl", "k9s", "Lens", "Mozilla", "dashboard", "headlamp")
"""How managers begin through which people edit; for items that consist of their key the position decides then."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A field in place of an own one, and its manager."""

    manager: str
    """The name of its field manager."""
    path: str


@dataclass(slots=True)
class Replaced:
    """What stands in place of own fields."""

    paths: list[Path] = field(default_factory=list)
    """Of fields that may be taken out."""
    kept: list[Holder] = field(default_factory=list)
    """Fields that another manager applied."""


@dataclass(slots=True)
class _Writer:
    entry: Manifest
    fields: Fields
    applied: bool
    """Whether by another manager's apply."""

    @property
    def manager(self) -> str:
        return str(self.entry.get("manager", ""))


_Nodes: TypeAlias = list[tuple[_Writer, Fields]]
"""Of each other manager that owns something at a place what it owns there."""


def find_replaced(live: Manifest, body: Manifest, manager: str, *, refused: bool) -> Replaced:
    """Return what stands in place of fields of `body`, which `manager` applies.

    `refused`: the server refused the apply, so that weaker evidence counts, and members of unions.
    """
    mine, others = _writers(live, manager)
    walk = _Walk(refused)
    for name, value in body.items():
        if name not in _NOT_CONTENT and name in live:
            step = f"f:{name}"
            walk.visit(value, live[name], mine.get(step), _below(others, step), (step,))
    return walk.found


def taken_over(live: Manifest, paths: list[Path], manager: str) -> list[Manifest]:
    """Return the `managedFields` in which `manager` has applied the fields at `paths`, and no other manager owns them."""
    entries: list[Manifest] = copy.deepcopy(live["metadata"].get("managedFields") or [])
    mine = next((each for each in entries if _is_apply_of(each, manager)), None)
    if mine is None:
        mine = {
            "manager": manager,
            "operation": "Apply",
            "apiVersion": live["apiVersion"],
            "fieldsType": "FieldsV1",
            "fieldsV1": {},
        }
        entries.append(mine)
    for path in paths:
        moved: Fields = {}
        for entry in entries:
            if entry is not mine and not entry.get("subresource"):
                _graft(moved, _cut(entry.get("fieldsV1") or {}, path))
        target = mine["fieldsV1"]
        for step in path:
            target = target.setdefault(step, {})
        _graft(target, moved or {".": {}})
    return [each for each in entries if each is mine or each.get("fieldsV1")]


class _Walk:
    def __init__(self, refused: bool) -> None:
        self.refused = refused
        self.found = Replaced()

    def visit(
        self, desired: object, live: object, mine: Fields | None, others: _Nodes, path: Path
    ) -> None:
        if isinstance(desired, Mapping) and isinstance(live, Mapping):
            self._visit_map(desired, live, mine or {}, others, path)
        elif isinstance(desired, list) and isinstance(live, list):
            keys = _key_names(mine or {}, others)
            if keys is not None:
                self._visit_items(desired, live, mine or {}, others, path, keys)
            elif any(step.startswith("v:") for _, fields in others for step in fields):
                self._visit_set(desired, live, mine or {}, others, path)

    def _visit_map(
        self,
        desired: Mapping[str, object],
        live: Mapping[str, object],
        mine: Fields,
        others: _Nodes,
        path: Path,
    ) -> None:
        for name, value in desired.items():
            step = f"f:{name}"
            if name in live:
                self.visit(value, live[name], mine.get(step), _below(others, step), (*path, step))
        if not self.refused or all(f"f:{name}" in mine for name in desired):
            return
        for name in live.keys() - desired.keys():
            step = f"f:{name}"
            if step not in mine:
                self._take(_below(others, step), (*path, step), unowned=False)

    def _visit_items(
        self,
        desired: list[Any],
        live: list[Any],
        mine: Fields,
        others: _Nodes,
        path: Path,
        keys: tuple[str, ...],
    ) -> None:
        steps = _steps(mine, *(fields for _, fields in others))
        known = KeyedItems([_keys_of(each, keys) for each in live])
        missing: dict[int, Any] = {}
        own: set[str] = set()
        for index, item in enumerate(desired):
            alike = [live[place] for place in islice(known.matching(_keys_of(item, keys)), _MOST)]
            found = _own_item(item, alike, mine, keys, steps)
            if found is None:
                missing[index] = item
                continue
            step = _step(found, keys, steps)
            own.add(step)
            self.visit(item, found, mine.get(step), _below(others, step), (*path, step))
        for index, item in enumerate(live):
            step = _step(item, keys, steps)
            if not missing or step in own or step in mine:  # the apply itself removes these
                continue
            owners = _below(others, step)
            place = self._replaced_by(item, index, missing, owners, keys)
            if place is not None and self._take(owners, (*path, step), unowned=True):
                del missing[place]

    def _replaced_by(
        self,
        item: object,
        index: int,
        missing: dict[int, Any],
        owners: _Nodes,
        keys: tuple[str, ...],
    ) -> int | None:
        """Return the index of the own item that `item` replaced; None: it stands beside them."""
        near: Collection[int] = missing if len(missing) <= _MOST else missing.keys() & {index}
        shares = {each: _likeness(missing[each], item, keys) for each in near}
        if not shares:
            return None
        best = max(shares, key=lambda each: (shares[each] or 0.0, each == index))
        if (shares[best] or 0.0) >= (_ALIKE if owners else _ALIKE_UNOWNED):
            return best
        if index not in missing or not owners:
            return None
        weak = shares[index] is None and _is_by_person(owners)
        return index if weak or self.refused else None

    def _visit_set(
        self, desired: list[Any], live: list[Any], mine: Fields, others: _Nodes, path: Path
    ) -> None:
        wanted, there = [orjson.dumps(each) for each in desired], {*map(orjson.dumps, live)}
        known = {*wanted}
        for index, item in enumerate(live[: len(desired)]):
            value = orjson.dumps(item)
            if value in known or wanted[index] in there:
                continue
            step = f"v:{value.decode()}"
            owners = _below(others, step)
            if step not in mine and owners and (self.refused or _is_by_person(owners)):
                self._take(owners, (*path, step), unowned=False)

    def _take(self, owners: _Nodes, path: Path, *, unowned: bool) -> bool:
        """Note a field in place of an own one. Returns whether it may be taken out."""
        if not owners and not unowned:
            return False
        kept = [each.manager for each, _ in owners if each.applied]
        if kept:
            self.found.kept.append(Holder(kept[0], _readable(path)))
        else:
            self.found.paths.append(path)
        return not kept


def _writers(live: Manifest, manager: str) -> tuple[Fields, _Nodes]:
    """Return what `manager` applied, and of each other entry what it owns."""
    mine: Fields = {}
    others: _Nodes = []
    for entry in live["metadata"].get("managedFields") or ():
        fields = entry.get("fieldsV1") or {}
        if entry.get("subresource"):
            continue
        if _is_apply_of(entry, manager):
            mine = fields
        else:
            others.append((_Writer(entry, fields, entry.get("operation") == "Apply"), fields))
    return mine, others


def _is_apply_of(entry: Manifest, manager: str) -> bool:
    applied = entry.get("operation") == "Apply" and not entry.get("subresource")
    return applied and entry.get("manager") == manager


def _below(nodes: _Nodes, step: str) -> _Nodes:
    return [(writer, fields[step]) for writer, fields in nodes if step in fields]


def _key_names(mine: Fields, others: _Nodes) -> tuple[str, ...] | None:
    """Return the names of the fields that identify the items of a list; None for a list without such."""
    for fields in (mine, *(each for _, each in others)):
        for step in fields:
            if step.startswith("k:"):
                return tuple(orjson.loads(step[2:]))
    return None


def _steps(*documents: Fields) -> dict[bytes, str]:
    """Return the steps that lead to the items of a list, by their keys."""
    steps = (step for fields in documents for step in fields if step.startswith("k:"))
    return {_sorted(orjson.loads(step[2:])): step for step in steps}


def _keys_of(item: Json, keys: tuple[str, ...]) -> Manifest:
    given = isinstance(item, Mapping)
    return {name: item[name] for name in keys if name in item} if given else {}


def _step(item: Json, keys: tuple[str, ...], known: dict[bytes, str]) -> str:
    """Return the step of `fieldsV1` that leads to an item."""
    wanted = _sorted(_keys_of(item, keys))
    return known.get(wanted) or f"k:{wanted.decode()}"


def _sorted(keys: Manifest) -> bytes:
    return orjson.dumps(keys, option=orjson.OPT_SORT_KEYS)


def _own_item(
    desired: Json,
    live: list[Any],
    mine: Fields,
    keys: tuple[str, ...],
    steps: dict[bytes, str],
) -> Json:
    """Return the item among those of the object with its keys that is the desired one, or None.

    One that leaves a key to the server is the item that this manager owns, since any of its values would fit.
    """
    found = [each for each in live if _is_same(each, desired, keys)]
    owned = next((each for each in found if _step(each, keys, steps) in mine), None)
    if owned is not None or any(name not in desired for name in keys):
        return owned
    return next(iter(found), None)


def _is_same(item: object, desired: object, keys: tuple[str, ...]) -> bool:
    """Whether an item of the object is a desired one, in which the server may fill in keys."""
    if not isinstance(item, Mapping) or not isinstance(desired, Mapping):
        return False
    return all(name not in desired or item.get(name) == desired[name] for name in keys)


def _likeness(desired: object, item: object, keys: tuple[str, ...]) -> float | None:
    """Return the share of the values of an own item that `item` has too; None if it consists of its key."""
    wanted = {pair for pair in _leaves(desired, "") if pair[0].removeprefix(".") not in keys}
    return len(wanted.intersection(_leaves(item, ""))) / len(wanted) if wanted else None


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}")
    elif isinstance(value, list) and value:
        for each in value:
            yield from _leaves(each, f"{path}[]")
    else:
        yield path, repr(value)


def _is_by_person(owners: _Nodes) -> bool:
    return any(writer.manager.startswith(_PERSONS) for writer, _ in owners)


def _readable(path: Path) -> str:
    """Return a path as the server writes it in a field conflict."""
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step.startswith("k:"):
            keys = orjson.loads(step[2:]).items()
            text += f"[{','.join(f'{name}={orjson.dumps(v).decode()}' for name, v in keys)}]"
        else:
            text += f"[={step[2:]}]"
    return text


def _cut(fields: Fields, path: Path) -> Fields:
    """Take the part at `path` out of a document, and return it; what is left empty goes too."""
    step, rest = path[0], path[1:]
    if step not in fields:
        return {}
    if not rest:
        found: Fields = fields.pop(step)
        return found or {".": {}}
    found = _cut(fields[step], rest)
    if found and not fields[step]:
        del fields[step]
    return found


def _graft(fields: Fields, more: Fields) -> None:
    for step, below in more.items():
        _graft(fields.setdefault(step, {}), below)
