"""Functions on mappings.

`set`, `unset` and the merges change the mapping that they are given, as in sprig. A template that
calls one of them reads its own copy of the variables, so nothing is carried over to another template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.limits import DEEPEST_VALUE, check_list_length
from internal.tenancy.rendering.values import Missing, is_empty, to_text

MUTATING = frozenset(
    {"set", "unset", "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite", "setCell"}
)
"""Functions that change an argument."""


def make_dict(*pairs: object) -> dict[str, Any]:
    """Return a mapping of `key value key value ...`."""
    if len(pairs) % 2:
        raise TemplateError("dict: the last key has no value")
    return {to_text(pairs[i]): pairs[i + 1] for i in range(0, len(pairs), 2)}


def get(mapping: object, key: object) -> object:
    """Return the value of the key, or nothing."""
    return _mapping("get", mapping).get(to_text(key), "")


def set_key(mapping: object, key: object, value: object) -> dict[str, Any]:
    """Return the mapping itself, with one key changed."""
    found = _own(_mapping("set", mapping))
    found[to_text(key)] = value
    check_list_length(len(found))
    return found


def unset(mapping: object, key: object) -> dict[str, Any]:
    """Return the mapping itself, without the key."""
    found = _own(_mapping("unset", mapping))
    found.pop(to_text(key), None)
    return found


def keys(*mappings: object) -> list[str]:
    """Return the keys of all mappings, those of each in order."""
    return [key for mapping in mappings for key in sorted(map(to_text, _mapping("keys", mapping)))]


def values(mapping: object) -> list[Any]:
    """Return the values in the order of their keys."""
    found = _mapping("values", mapping)
    return [found[key] for key in sorted(found, key=to_text)]


def pluck(key: object, *mappings: object) -> list[Any]:
    """Return the values of one key in all mappings that have it."""
    name = to_text(key)
    found = [_mapping("pluck", mapping) for mapping in mappings]
    return [mapping[name] for mapping in found if name in mapping]


def pick(mapping: object, *names: object) -> dict[str, Any]:
    """Return a new mapping with these keys only."""
    found = _mapping("pick", mapping)
    return {name: found[name] for name in map(to_text, names) if name in found}


def omit(mapping: object, *names: object) -> dict[str, Any]:
    """Return a new mapping without these keys."""
    left_out = set(map(to_text, names))
    return {name: item for name, item in _mapping("omit", mapping).items() if name not in left_out}


def dig(*arguments: object) -> object:
    """`dig "a" "b" fallback mapping`: the value at a.b, or the fallback where a key is missing."""
    if len(arguments) < 3:
        raise TemplateError("dig: it needs keys, a fallback and a mapping")
    *path, fallback, node = arguments
    for key in path:
        found = _mapping("dig", node)
        if to_text(key) not in found:
            return fallback
        node = found[to_text(key)]
    return node


def merge(target: object, *sources: object) -> object:
    """Return the first mapping itself, with what it lacks or has empty from the others, deeply."""
    return _merged("merge", target, sources, overwrite=False)


def merge_overwrite(target: object, *sources: object) -> object:
    """Return the first mapping itself, with everything that the others have, deeply."""
    return _merged("mergeOverwrite", target, sources, overwrite=True)


def deep_copy(value: object) -> object:
    """Return the value with fresh lists and mappings all the way down."""
    return _copy(value, 0)


def has_key(mapping: object, key: object) -> bool:
    """Whether the mapping has the key."""
    return to_text(key) in _mapping("hasKey", mapping)


def _merged(name: str, target: object, sources: Iterable[Any], *, overwrite: bool) -> object:
    for source in sources:
        _merge_into(_own(_mapping(name, target)), _mapping(name, source), overwrite, 0)
    return target


def _merge_into(
    target: dict[str, Any], source: Mapping[str, Any], overwrite: bool, depth: int
) -> None:
    if depth > DEEPEST_VALUE:
        raise TemplateError(f"merge: a value is nested deeper than {DEEPEST_VALUE} levels")
    for key, item in list(source.items()):
        present = target.get(key)
        if isinstance(item, Mapping) and isinstance(present, dict) and present:
            _merge_into(present, item, overwrite, depth + 1)
        elif is_empty(present) or (overwrite and not isinstance(item, Mapping)):
            target[key] = item
    check_list_length(len(target))


def _copy(value: object, depth: int) -> object:
    if depth > DEEPEST_VALUE:
        raise TemplateError(f"deepCopy: a value is nested deeper than {DEEPEST_VALUE} levels")
    if isinstance(value, Mapping):
        return {key: _copy(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item, depth + 1) for item in value]
    return value


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if isinstance(value, Missing):
        value._fail_with_undefined_error()
    if not isinstance(value, Mapping):
        raise TemplateError(f"{name}: the value is not a mapping")
    return value


def _own(mapping: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(mapping, dict):
        raise TemplateError("the value cannot be changed; use deepCopy")
    return mapping


MAPPINGS: dict[str, Callable[..., Any]] = {
    "dict": make_dict,
    "get": get,
    "set": set_key,
    "unset": unset,
    "hasKey": has_key,
    "pluck": pluck,
    "keys": keys,
    "values": values,
    "pick": pick,
    "omit": omit,
    "dig": dig,
    "merge": merge,
    "mergeOverwrite": merge_overwrite,
    "deepCopy": deep_copy,
}
