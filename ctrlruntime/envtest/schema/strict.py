"""Decoding of request bodies with an eye on repeated fields, as ``fieldValidation`` requires."""

from __future__ import annotations

import json
from typing import Any

import orjson
import yaml

from ctrlruntime.json import Json


class DecodeError(ValueError):
    """A body that is neither JSON nor YAML of the kind that was announced."""


Pairs = list[tuple[str, Any]]


class _Object(dict[str, Any]):
    """An object that remembers which of its keys came more than once."""

    __slots__ = ("repeated",)

    repeated: list[str]


def strict_decode(body: bytes, content_type: str = "application/json") -> tuple[Any, list[str]]:
    """Return the decoded body and its duplicate fields: ``duplicate field "spec.replicas"``.

    The last of repeated values wins, as on the server. Raises :class:`DecodeError`.
    """
    if "yaml" in content_type:
        return _decode_yaml(body)
    try:
        plain = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise DecodeError(str(error)) from error
    return plain, repeated_fields(body, plain)


def repeated_fields(body: bytes, plain: object) -> list[str]:
    """Return the duplicate fields of a body that was decoded to ``plain``; none where it is not JSON."""
    if not _may_repeat(body, plain):
        return []
    try:
        tree = json.loads(body, object_pairs_hook=_remember)
    except ValueError:
        return []
    return _duplicates(tree)


def _may_repeat(body: bytes, plain: object) -> bool:
    """Whether the text has more members than what was decoded from it.

    Counting is far cheaper than decoding with a hook. Texts that write their members in another way
    than `"name":` only cost a second look.
    """
    return b"\\u" in body or body.count(b'":') != orjson.dumps(plain).count(b'":')


def _remember(pairs: Pairs) -> _Object:
    out = _Object(pairs)
    seen: set[str] = set()
    out.repeated = []
    for key, _ in pairs:
        if key in seen and key not in out.repeated:
            out.repeated.append(key)
        seen.add(key)
    return out


def _duplicates(tree: object, path: str = "") -> list[str]:
    found: list[str] = []
    if isinstance(tree, dict):
        for key, value in tree.items():
            here = f"{path}.{key}" if path else key
            if key in getattr(tree, "repeated", ()):
                found.append(f'duplicate field "{here}"')
            if isinstance(value, dict | list):
                found.extend(_duplicates(value, here))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            if isinstance(value, dict | list):
                found.extend(_duplicates(value, f"{path}[{index}]"))
    return found


# --- YAML ----------------------------------------------------------------------------------------

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _decode_yaml(body: bytes) -> tuple[Any, list[str]]:
    try:
        node = yaml.compose(body, Loader=_LOADER)
        if node is None:
            return None, []
        found: list[str] = []
        _yaml_duplicates(node, found, set())
        value = yaml.load(body, Loader=_LOADER)  # noqa: S506 - the safe loader, in C where there is one
    except yaml.YAMLError as error:
        raise DecodeError(f"error converting YAML to JSON: {error}") from error
    return _as_json(value), found


def _yaml_duplicates(node: object, found: list[str], above: set[int]) -> None:
    if id(node) in above:
        return
    above = above | {id(node)}
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen and name != "<<":
                line = key.start_mark.line + 1
                found.append(f'line {line}: key "{name}" already set in map')
            seen.add(name)
            _yaml_duplicates(value, found, above)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _yaml_duplicates(value, found, above)


def _as_json(value: object) -> Json:
    """YAML's own types as JSON has them: dates become texts, keys become strings."""
    if isinstance(value, dict):
        return {_key(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_as_json(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)
