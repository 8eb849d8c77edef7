"""The record of which fields the last apply set. Pure.

Once another manager has changed a field, `managedFields` shows no longer who had it before. The annotation
:data:`FIELDS`, which each apply that may meet a conflict writes along, tells a field that was this manager's and was
edited since (drift, set back) from one that another manager had first (a conflict, left alone).

It holds four characters for each field: 24 bits of the hash of its path, without values, so that objects of one
template share it. Items of lists count by what usually identifies them (`_IDENTITIES`).
"""

import base64
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast

import orjson
from fnv_hash_fast import fnv1a_32

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.json import Json
from ctrlruntime.resources.drift import Location
from ctrlruntime.resources.keyed_items import KeyedItems
from ctrlruntime.resources.ownership import OWNER, OWNER_UID
from ctrlruntime.resources.revision import REVISION

FIELDS: Final = "ctrlruntime.dev/applied-fields"
"""Annotation that carries the fields that were last applied."""
_TRACKING: Final = frozenset({FIELDS, OWNER, OWNER_UID, REVISION})
_LENGTH: Final = 4
_MOST: Final = 4096
"""Fields of an object up to which they are recorded."""
_IDENTITIES: Final = (
    ("mountPath",),
    ("devicePath",),
    ("containerPort", "protocol"),
    ("port", "protocol"),
    ("ip",),
    ("topologyKey", "whenUnsatisfiable"),
    ("name",),
    ("key",),
    ("type",),
    ("id",),
)
"""Which fields identify an item: the first of these that it has, else all that are no maps or lists."""
_QUOTED: Final = '"'
_AROUND: Final = string.whitespace + _QUOTED
_BOUNDARY: Final = re.compile(r"[.[]")
_MOST_CHARACTERS: Final = 4 * 2**20
"""Of the paths of all fields of an object up to which they are recorded, or found in a record."""
_MOST_ALIKE: Final = 100
"""Items that fit one key, and dots of one name, up to which they are looked at."""
_SHORT: Final = 256
"""Characters of a path up to which its token is kept."""
_LONGEST_INDEX: Final = 9


def record_fields(body: Manifest) -> str:
    """Return the annotation's value for an object that is applied; empty for one with too many fields, or too long paths."""
    found: set[str] = set()
    left = _MOST_CHARACTERS
    for path in _content_fields(body):
        found.add(_token(path))
        left -= len(path)
        if left < 0 or len(found) > _MOST:
            return ""
    return "".join(sorted(found))


def owns_record(owned: bytes | None) -> bool:
    """Whether a manager's `fieldsV1` document has the record."""
    return owned is not None and f'"f:{FIELDS}"'.encode() in owned


def was_applied(field: str, body: Manifest, record: str) -> bool:
    """Whether the apply that wrote `record` set a field that `body` sets, too; see `AppliedFields`."""
    return AppliedFields(body, record).has(field)


class AppliedFields:
    """Which fields that `body` sets the apply that wrote `record` set, too. For one or many: nothing is looked through twice."""

    __slots__ = ("_body", "_keyed", "_known", "_left", "_texts")

    def __init__(self, body: Manifest, record: str) -> None:
        self._body = body
        self._known = {record[at : at + _LENGTH] for at in range(0, len(record), _LENGTH)}
        self._keyed: dict[tuple[int, tuple[str, ...]], KeyedItems] = {}
        """Items of the lists of `body` by the id of the list, and the names of keys."""
        self._texts: dict[Location, tuple[Json, str]] = {(): (body, "")}
        """The values and paths of what has fields that were looked for."""
        self._left = _MOST_CHARACTERS

    def has(self, field: str) -> bool:
        """Whether a field was set.

        `field`: its path as in the causes of a field conflict (`.spec.ports[port=80,protocol="TCP"].name`), or with the
        index in `body` for the key of an item.
        """
        return any(
            self._is_known(value, path) for value, path in self._resolve(field, self._body, "")
        )

    def has_at(self, location: Location) -> bool:
        """Whether a field of `body` was set."""
        return bool(self._known) and self._is_known(*self._at(location))

    def _is_known(self, value: Json, path: str) -> bool:
        if self._known:
            for each in _fields(value, path):
                self._left -= len(each)
                if self._left < 0:
                    return False
                if _token(each) in self._known:
                    return True
        return False

    def _at(self, location: Location) -> tuple[Json, str]:
        if not location:
            return self._texts[()]
        above = location[:-1]
        if above not in self._texts:
            self._texts[above] = self._at(above)
        value, path = self._texts[above]
        part = location[-1]
        self._left -= len(path)
        if self._left < 0:
            return None, ""
        found = cast("dict[str | int, Any]", value)[part]
        return found, f"{path}[{_identity(found)}]" if isinstance(part, int) else f"{path}.{part}"

    def _resolve(self, field: str, value: Json, path: str) -> Iterator[tuple[Json, str]]:
        """Yield the value at `field`, whose names may contain dots, with its path as `_fields` writes it."""
        if not field:
            yield value, path
        elif isinstance(value, Mapping) and field[0] == ".":
            for end in _ends(field):
                name = field[1:end]
                if name in value:
                    yield from self._resolve(field[end:], value[name], f"{path}.{name}")
        elif isinstance(value, list) and field[0] == "[":
            key, rest = _bracket(field)
            for index in islice(self._places(key, value), _MOST_ALIKE):
                item = value[index]
                if _is_at(key, index, item):
                    yield from self._resolve(rest, item, f"{path}[{_identity(item)}]")

    def _places(self, key: str, items: list[Any]) -> Iterable[int]:
        """Return the indexes of the items that a list may have at a key."""
        if key.isdecimal():
            index = int(key[:_LONGEST_INDEX])
            return (index,) if index < len(items) else ()
        wanted = (
            {"": _parsed(key[1:])}
            if key.startswith("=")
            else {name: _parsed(text) for name, text in _pairs(key)}
        )
        at = (id(items), tuple(wanted))
        known = self._keyed.get(at)
        if known is None:
            keyed = [
                {name: each[name] for name in wanted if name in each}
                if isinstance(each, Mapping)
                else {"": each}
                for each in items
            ]
            known = self._keyed[at] = KeyedItems(keyed)
        return known.matching(wanted)


def has_list(location: Location, body: Manifest) -> bool:
    """Whether a field of `body` is an item of a list or has a list with items in it."""
    if isinstance(location[-1], int):
        return True
    value: Json = body
    for part in location:
        if isinstance(value, Mapping) and part not in value:
            return False
        value = value[part]
    return _has_items(value)


def _has_items(value: Json) -> bool:
    if isinstance(value, Mapping):
        return any(_has_items(each) for each in value.values())
    return isinstance(value, list) and bool(value)


def _ends(field: str) -> Iterator[int]:
    """Yield where the first name of a field may end: names may contain dots."""
    for found in islice(_BOUNDARY.finditer(field, 1), _MOST_ALIKE):
        yield found.start()
    yield len(field)


def _content_fields(body: Manifest) -> Iterator[str]:
    for name, value in body.items():
        if name == "metadata":
            for part in ("labels", "annotations"):
                for key in (value.get(part) or {}).keys() - _TRACKING:
                    yield f".metadata.{part}.{key}"
        elif name not in ("apiVersion", "kind", "status"):
            yield from _fields(value, f".{name}")


def _fields(value: object, path: str) -> Iterator[str]:
    """Yield the paths of what has a value of its own; of a list the list, too, which may be atomic."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _fields(each, f"{path}.{name}")
    elif isinstance(value, list):
        yield path
        for each in value:
            yield from _fields(each, f"{path}[{_identity(each)}]")
    elif value is not None:
        yield path


def _identity(item: object) -> str:
    if not isinstance(item, Mapping):
        return f"={orjson.dumps(item).decode()}"
    names = next((each for each in _IDENTITIES if each[0] in item), None)
    if names is None:
        names = tuple(sorted(k for k, v in item.items() if not isinstance(v, Mapping | list)))
    return ",".join(f"{name}={item[name]}" for name in names if name in item)


def _token(path: str) -> str:
    return _short_token(path) if len(path) <= _SHORT else _hashed(path)


@lru_cache(maxsize=8192)
def _short_token(path: str) -> str:
    return _hashed(path)


def _hashed(path: str) -> str:
    return base64.b64encode(fnv1a_32(path.encode()).to_bytes(4, "big")[1:]).decode()


def _bracket(field: str) -> tuple[str, str]:
    """Split `[...]rest`; brackets within quotes do not count."""
    quoted = escaped = False
    for at, char in enumerate(field):
        if char == "]" and not quoted:
            return field[1:at], field[at + 1 :]
        if char == _QUOTED and not escaped:
            quoted = not quoted
        escaped = char == "\\" and not escaped
    return field[1:], ""


def _is_at(key: str, index: int, item: object) -> bool:
    """Whether a list has `item` at a key such as `0`, `="value"` or `name="app",port=80`."""
    if key.isdecimal():
        return int(key) == index
    if key.startswith("="):
        return not isinstance(item, Mapping) and _same(key[1:], item)
    if not isinstance(item, Mapping):
        return False
    pairs = dict(_pairs(key))
    return all(name not in item or _same(text, item[name]) for name, text in pairs.items())


def _pairs(key: str) -> Iterator[tuple[str, str]]:
    while key:
        name, _, rest = key.partition("=")
        text, _ = _value(rest)
        key = rest[len(text) :].removeprefix(",")
        yield name, text


def _value(text: str) -> tuple[str, str]:
    """Split a value from what follows it."""
    if not text.startswith(_QUOTED):
        found, comma, rest = text.partition(",")
        return found, comma + rest
    escaped = False
    for at, char in enumerate(text[1:], 1):
        if char == _QUOTED and not escaped:
            return text[: at + 1], text[at + 1 :]
        escaped = char == "\\" and not escaped
    return text, ""


def _same(text: str, value: object) -> bool:
    return bool(_parsed(text) == value)


def _parsed(text: str) -> Json:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text.strip(_AROUND)
