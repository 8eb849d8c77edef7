"""The JSONPath of printer columns, in the dialect of Kubernetes: `.status.conditions[?(@.type=="Ready")].status`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from ctrlruntime.json import Json

_TOKEN: Final = re.compile(
    r"""\.\.(?P<deep>[\w-]+)            # ..name
      | \.?\*                           # .*
      | \.(?P<member>(?:\\.|[^.\[\\\s])+) # .name, with \\. for a dot in it
      | \[\?\((?P<filter>.*?)\)\]       # [?(...)]
      | \[(?P<wild>\*)\]
      | \[(?P<slice>-?\d*:-?\d*)\]
      | \[(?P<index>-?\d+)\]
      | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]""",
    re.VERBOSE,
)
_FILTER: Final = re.compile(
    r"^\s*@(?P<path>.*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*$"
)
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

Step = Callable[[Any], Iterator[Any]]


class InvalidPath(ValueError):
    """A path that is not in the dialect."""


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled path."""

    steps: tuple[Step, ...]

    def find(self, value: object) -> list[Any]:
        """All matches in order; missing members match nothing."""
        found = [value]
        for step in self.steps:
            found = [result for each in found for result in step(each)]
        return found


@lru_cache(maxsize=512)
def compile_path(text: str) -> Path:
    """Raise InvalidPath."""
    source = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if source and source[0] not in ".[":
        source = f".{source}"
    steps: list[Step] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise InvalidPath(f"{text!r}: cannot read {source[at:]!r}")
        steps.append(_step(match))
        at = match.end()
    return Path(tuple(steps))


def _step(match: re.Match[str]) -> Step:
    found = {key: value for key, value in match.groupdict().items() if value is not None}
    if "deep" in found:
        return _deep(found["deep"])
    if "member" in found:
        return _member(re.sub(r"\\(.)", r"\1", found["member"]))
    if "quoted" in found:
        return _member(found["quoted"])
    if "filter" in found:
        return _filter(found["filter"])
    if "slice" in found:
        return _slice(found["slice"])
    if "index" in found:
        return _index(int(found["index"]))
    return _children


def _member(name: str) -> Step:
    def step(value: object) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(position: int) -> Step:
    def step(value: object) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= position < len(value):
            yield value[position]

    return step


def _slice(text: str) -> Step:
    first, _, last = text.partition(":")
    chosen = slice(int(first) if first else None, int(last) if last else None)

    def step(value: object) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[chosen]

    return step


def _children(value: object) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _deep(name: str) -> Step:
    def step(value: object) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]
        for child in _children(value):
            yield from step(child)

    return step


def _filter(text: str) -> Step:
    match = _FILTER.match(text)
    if match is None:
        raise InvalidPath(f"cannot read the filter {text!r}")
    path = compile_path(match["path"])
    compare = _OPERATORS[match["op"]] if match["op"] else None
    wanted = _literal(match["value"]) if compare else None

    def accepts(item: object) -> bool:
        found = path.find(item)
        if compare is None:
            return bool(found)
        return any(_same_type(each, wanted) and compare(each, wanted) for each in found)

    def step(value: object) -> Iterator[Any]:
        if isinstance(value, list):
            yield from filter(accepts, value)

    return step


def _literal(text: str) -> Json:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _same_type(left: object, right: object) -> bool:
    numbers = (int, float)
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    if isinstance(left, numbers):
        return isinstance(right, numbers)
    return type(left) is type(right)
