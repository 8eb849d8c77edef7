"""Which fields of an object a write changes, with Secrets masked. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.json import Json

MASK: Final = "***"
MASKED: Final = ("data", "stringData")
"""Fields of a Secret whose values are masked."""
MASKED_BEFORE, MASKED_AFTER = f"{MASK} (before)", f"{MASK} (after)"
SHORTEST_PART = 3
"""Characters of a value that is replaced within a longer text; a shorter one is replaced alone only."""
_SECRET = GroupKind("", "Secret")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that a write changes. None stands for a field that is absent.

    `restored`: it was changed by another writer, and gets the value that was applied before.
    """

    path: str
    before: Any = None
    after: Any = None
    restored: bool = False


def field_changes(before: object, after: object) -> list[FieldChange]:
    """Return the fields that differ between two manifests, in the order of their paths."""
    found: list[FieldChange] = []
    _compare("", before, after, found)
    return sorted(found, key=lambda item: item.path)


def masked(
    changes: Iterable[FieldChange], kind: GroupKind, hidden: Mapping[str, str]
) -> tuple[FieldChange, ...]:
    """Return the changes without the data of Secrets and without any value of `hidden`."""
    texts = sorted({text for text in hidden.values() if text}, key=len, reverse=True)
    texts += [base64.b64encode(text.encode()).decode() for text in texts]
    return tuple(_masked(item, kind, texts) for item in changes)


def _masked(change: FieldChange, kind: GroupKind, texts: Sequence[str]) -> FieldChange:
    if not change.path and kind == _SECRET and isinstance(change.after, Mapping):
        data = {
            name: dict.fromkeys(change.after[name], MASK)
            for name in MASKED
            if change.after.get(name)
        }
        return replace(change, after={**_replaced(change.after, texts), **data})
    if kind == _SECRET and change.path.split(".")[0].split("[")[0] in MASKED:
        before, after = (
            MASK if each is not None else None for each in (change.before, change.after)
        )
    else:
        before, after = (_replaced(each, texts) for each in (change.before, change.after))
    path = str(_replaced(change.path, texts))
    if before is not None and before == after:
        before, after = MASKED_BEFORE, MASKED_AFTER
    return replace(change, path=path, before=before, after=after)


def _replaced(item: object, texts: Sequence[str]) -> Json:
    if isinstance(item, Mapping):
        return {str(_replaced(k, texts)): _replaced(v, texts) for k, v in item.items()}
    if isinstance(item, list):
        return [_replaced(each, texts) for each in item]
    if isinstance(item, str):
        for text in texts:
            item = item.replace(text, MASK)
        return item
    return MASK if item is not None and str(item) in texts else item


def general(changes: Iterable[FieldChange], values: Mapping[str, str]) -> tuple[object, ...]:
    """Return what the changes of tenants have in common: values of the row become their names."""
    texts = sorted(
        ((text, f"<{name}>") for name, text in values.items() if text),
        key=lambda each: (-len(each[0]), each[1]),
    )
    return tuple(
        (_general(item.path, texts), _frozen(item.before, texts), _frozen(item.after, texts))
        for item in changes
    )


def _frozen(item: object, texts: Sequence[tuple[str, str]]) -> object:
    """Return a hashable form of a value."""
    if isinstance(item, Mapping):
        return tuple((_general(str(k), texts), _frozen(v, texts)) for k, v in item.items())
    if isinstance(item, list):
        return ("list", *(_frozen(each, texts) for each in item))
    return _general(item, texts) if isinstance(item, str) else (type(item).__name__, str(item))


def _general(text: str, texts: Sequence[tuple[str, str]]) -> str:
    for value, name in texts:
        if text == value:
            return name
        if len(value) >= SHORTEST_PART:
            text = text.replace(value, name)
    return text


def _compare(path: str, before: object, after: object, found: list[FieldChange]) -> None:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in {**before, **after}:
            _compare(_join(path, str(key)), before.get(key), after.get(key), found)
    elif isinstance(before, list) and isinstance(after, list):
        _compare_lists(path, before, after, found)
    else:
        found.append(FieldChange(path, before, after))


def _compare_lists(
    path: str, before: list[Any], after: list[Any], found: list[FieldChange]
) -> None:
    for key in ("name", "id"):
        old, new = _by(before, key), _by(after, key)
        if old is not None and new is not None:
            for name in {**old, **new}:
                _compare(f"{path}[{key}={name}]", old.get(name), new.get(name), found)
            return
    if len(before) != len(after):
        found.append(FieldChange(path, before, after))
        return
    for place, (old_item, new_item) in enumerate(zip(before, after, strict=True)):
        _compare(f"{path}[{place}]", old_item, new_item, found)


def _by(items: list[Any], key: str) -> dict[str, Any] | None:
    """Return the items by a key that each has with another value; None if they are not such."""
    if not all(isinstance(item, Mapping) and isinstance(item.get(key), str) for item in items):
        return None
    found = {item[key]: item for item in items}
    return found if len(found) == len(items) else None


def _join(path: str, key: str) -> str:
    part = f"[{key!r}]" if "." in key or "/" in key else key
    return part if not path else f"{path}{part}" if part.startswith("[") else f"{path}.{part}"
