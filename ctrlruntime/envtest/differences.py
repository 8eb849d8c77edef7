"""What an object lacks of what is expected of it. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

Expected = Any
"""A part of a manifest; see `differences`."""

_KEYS = ("type", "name", "containerPort", "ip")


def differences(expected: Expected, actual: object, path: str = "") -> list[str]:
    """One line for each place where `actual` is not as `expected`; empty if it is.

    Objects are expected in part: fields not named do not matter. Lists of objects with a key
    (`type`, `name`, ...) are matched by it and may hold more; other lists must be equal item by
    item. `None` expects that there is no value, `...` that there is one, and a callable is asked.
    """
    if callable(expected):
        return _asked(expected, actual, path)
    if expected is ...:
        return [f"{_at(path)}: is missing"] if actual is None else []
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping):
            return [f"{_at(path)}: expected an object, there is {_show(actual)}"]
        return [
            line
            for key, value in expected.items()
            for line in differences(value, actual.get(key), f"{path}.{key}" if path else str(key))
        ]
    if isinstance(expected, list | tuple):
        return _lists(expected, actual, path)
    if expected != actual:
        return [f"{_at(path)}: expected {_show(expected)}, there is {_show(actual)}"]
    return []


def _asked(question: Callable[[Any], Any], actual: object, path: str) -> list[str]:
    try:
        answer = question(actual)
    except (AssertionError, LookupError, TypeError, AttributeError) as error:
        return [f"{_at(path)}: {type(error).__name__}: {error}"]
    if answer is None or answer:
        return []
    name = getattr(question, "__name__", "the condition")
    return [f"{_at(path)}: {name} does not hold for {_show(actual)}"]


def _lists(expected: Sequence[Any], actual: object, path: str) -> list[str]:
    if not isinstance(actual, list):
        return [f"{_at(path)}: expected a list, there is {_show(actual)}"]
    key = _key(expected)
    if key is not None:
        found = {item.get(key): item for item in actual if isinstance(item, Mapping)}
        lines: list[str] = []
        for item in expected:
            where = f"{path}[{key}={item[key]}]"
            if item[key] in found:
                lines += differences(item, found[item[key]], where)
            else:
                lines.append(f"{where}: is missing; there are {_show(sorted(map(str, found)))}")
        return lines
    if len(expected) != len(actual):
        return [f"{_at(path)}: expected {len(expected)} items, there are {_show(actual)}"]
    pairs = enumerate(zip(expected, actual, strict=True))
    return [line for i, (e, a) in pairs for line in differences(e, a, f"{path}[{i}]")]


def _key(expected: Sequence[Any]) -> str | None:
    for key in _KEYS:
        if expected and all(
            isinstance(item, Mapping) and isinstance(item.get(key), str | int) for item in expected
        ):
            return key
    return None


def _at(path: str) -> str:
    return path or "the object"


def _show(value: object) -> str:
    text = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    return text if len(text) <= 300 else f"{text[:300]}..."
