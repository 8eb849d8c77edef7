"""The record of which fields the last apply set. Pure.

Once another manager has changed a field, `managedFields` shows no longer who had it before. The annotation
:data:`FIELDS`, which each apply that may meet a conflict writes along, tells a field that was this manager's and was
edited since (drift, set back) from one that another manager had first (a conflict, left alone).

It holds four characters for each field: 24 bits of the hash of its path, without values, so that objects of one
template share it. Items of lists count by what usually identifies them (`_IDENTITIES`).
"""

import base64
import string
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import orjson
from fnv_hash_fast import fnv1a_32

from ctrlruntime.api.kinds import Manifest
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


def record_fields(body: Manifest) -> str:
    """Return the annotation's value for an object that is applied; empty for one with too many fields."""
    found = {_token(path) for path in _content_fields(body)}
    return "".join(sorted(found)) if len(found) <= _MOST else ""


def owns_record(owned: bytes | None) -> bool:
    """Whether a manager's `fieldsV1` document has the record."""
    return owned is not None and f'"f:{FIELDS}"'.encode() in owned


def was_applied(field: str, body: Manifest, record: str) -> bool:
    """Whether the apply that wrote `record` set a field that `body` sets, too.

    `field`: its path as in the causes of a field conflict (`.spec.ports[port=80,protocol="TCP"].name`), or with the
    index in `body` for the key of an item.
    """
    known = {record[at : at + _LENGTH] for at in range(0, len(record), _LENGTH)}
    for value, path in _resolve(field, body, ""):
        if any(_token(each) in known for each in _fields(value, path)):
            return True
    return False


def has_list(path: str, body: Manifest) -> bool:
    """Whether a field of `body` at a path such as `spec.ports[0]` is an item of a list or has a list in it."""
    if path.endswith("]"):
        return True
    values = (value for value, _ in _resolve(f".{path}", body, ""))
    return any("[" in each for value in values for each in _fields(value, ""))


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


@lru_cache(maxsize=8192)
def _token(path: str) -> str:
    return base64.b64encode(fnv1a_32(path.encode()).to_bytes(4, "big")[1:]).decode()


def _resolve(field: str, value: object, path: str) -> Iterator[tuple[object, str]]:
    """Yield the value at `field`, whose names may contain dots, with its path as `_fields` writes it."""
    if not field:
        yield value, path
    elif isinstance(value, Mapping):
        for name, each in value.items():
            rest = field.removeprefix(f".{name}")
            if rest != field and rest[:1] in ("", ".", "["):
                yield from _resolve(rest, each, f"{path}.{name}")
    elif isinstance(value, list) and field[0] == "[":
        key, rest = _bracket(field)
        for index, item in enumerate(value):
            if _is_at(key, index, item):
                yield from _resolve(rest, item, f"{path}[{_identity(item)}]")


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
    try:
        return bool(orjson.loads(text) == value)
    except orjson.JSONDecodeError:
        return text.strip(string.whitespace + _QUOTED) == str(value)
