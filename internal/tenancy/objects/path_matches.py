"""What the paths of `ignoreFields` match in an object: charged before it is looked for, so that no object is searched for long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from jsonpath import CompoundJSONPath, JSONPath, JSONPathError
from jsonpath.filter import FilterQuery, InfixExpression, RootFilterQuery
from jsonpath.match import JSONPathMatch
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import Filter, IndexSelector, NameSelector

from ctrlruntime.intake import OBJECT_DEPTH
from internal.tenancy.objects.json_paths import parts_of
from internal.tenancy.objects.path_errors import IgnoreFieldError

if TYPE_CHECKING:
    from jsonpath.segments import JSONPathSegment
    from jsonpath.selectors import JSONPathSelector

MOST_WORK: Final = 1_000_000
"""Values that all paths of one resource may look at in one object: a second of a thread."""
_CHARACTERS: Final = 256
"""Characters that are compared or copied in the time that a value is looked at."""


class Work:
    """Counts what the paths of one resource look at in one object."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MOST_WORK

    def charge(self, values: int) -> None:
        """Raise IgnoreFieldError if the paths look at too many values."""
        self._left -= values
        if self._left < 0:
            raise IgnoreFieldError(
                f"ignoreFields: the paths look at more than {MOST_WORK} values of the object; write "
                "fewer of them, with the steps written out in place of '..' and of filters in filters"
            )


class _Match(JSONPathMatch):
    """A match without what grows with the length of its keys, or holds on to other matches."""

    __slots__ = ()

    def new_child(self, obj: object, key: int | str) -> _Match:
        return _Match(
            filter_context=self.filter_context(),
            obj=obj,
            parent=None,
            path="",
            parts=(*self.parts, str(key) if isinstance(self.obj, Mapping) else key),
            root=self.root,
        )

    def add_child(self, *children: JSONPathMatch) -> None:
        """Keep none."""


def matches(
    path: JSONPath | CompoundJSONPath, root: Mapping[str, Any], work: Work
) -> list[JSONPathMatch]:
    """Return the matches in the order of the parser. Raises IgnoreFieldError."""
    if isinstance(path, JSONPath):
        try:
            return [*_found(path, root, work)]
        except JSONPathError as error:
            problem = str(error).partition("\n")[0]
            raise IgnoreFieldError(f"ignoreFields: a path cannot be evaluated: {problem}") from None
    made = matches(path.path, root, work)
    for operator, other in path.paths:
        more = matches(other, root, work)
        if operator == path.env.union_token:
            made += more
        else:
            values = [match.obj for match in more]
            for value in values:
                work.charge(len(made) * _weight(value)[0])
            made = [match for match in made if match.obj in values]
    return made


def _found(path: JSONPath, root: Mapping[str, Any], work: Work) -> Iterable[JSONPathMatch]:
    found: Iterable[JSONPathMatch] = [
        _Match(filter_context={}, obj=root, parent=None, path="", parts=(), root=root)
    ]
    for segment in path.segments:
        found = _selected(segment, found, work)
    return found


def _selected(
    segment: JSONPathSegment, nodes: Iterable[JSONPathMatch], work: Work
) -> Iterator[JSONPathMatch]:
    selectors = [(each, _cost(each)) for each in segment.selectors]
    descends = isinstance(segment, JSONPathRecursiveDescentSegment)
    for node in nodes:
        for each in _with_those_below(node, work) if descends else (node,):
            for selector, cost in selectors:
                work.charge(cost(each))
                yield from selector.resolve(each)


def _with_those_below(node: JSONPathMatch, work: Work) -> Iterator[JSONPathMatch]:
    """Yield a node and all objects and lists below it, each before those in it."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if len(each.parts) > OBJECT_DEPTH:
            raise IgnoreFieldError(
                f"ignoreFields: the object nests more than {OBJECT_DEPTH} levels; write the steps out in place of '..'"
            )
        yield each
        children = _children(each.obj)
        work.charge(1 + len(children) * (1 + len(each.parts) // 16))
        below = [(key, value) for key, value in children if isinstance(value, Mapping | list)]
        waiting += (each.new_child(value, key) for key, value in reversed(below))


def _children(value: object) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return [*value.items()]
    return [*enumerate(value)] if isinstance(value, list) else []


def _cost(selector: JSONPathSelector) -> Callable[[JSONPathMatch], int]:
    """Return what a selector looks at in a node."""
    if isinstance(selector, NameSelector | IndexSelector):
        return lambda _node: 1
    return _filter_cost(selector) if isinstance(selector, Filter) else _width


def _width(node: JSONPathMatch) -> int:
    return 1 + (len(node.obj) if isinstance(node.obj, Mapping | list) else 0)


def _filter_cost(selector: Filter) -> Callable[[JSONPathMatch], int]:
    """Return the cost of a filter: of a child a little where it compares fields with literals, else all in it.

    Queries from the root are evaluated once for each node; `in` and `contains` look through what they find for each
    child.
    """
    parts = [*parts_of(selector.expression)]
    queries = [part for part in parts if isinstance(part, FilterQuery)]
    steps = len(parts) + sum(len(query.path.segments) for query in queries)
    infixes = [part for part in parts if isinstance(part, InfixExpression)]
    compared = any(
        isinstance(each.left, FilterQuery) and isinstance(each.right, FilterQuery)
        for each in infixes
    )
    deep = compared or not all(query.path.singular_query() for query in queries)
    from_root = any(isinstance(query, RootFilterQuery) for query in queries)
    searches = any(each.operator in ("in", "contains") for each in infixes)
    descents = sum(
        isinstance(segment, JSONPathRecursiveDescentSegment)
        for query in queries
        for segment in query.path.segments
    )

    def cost(node: JSONPathMatch) -> int:
        width = _width(node)
        if not deep:
            return width * steps
        weight, depth = _weight(node.obj)
        if from_root:
            more, further = _weight(node.root)
            weight, depth = weight + more * (width if searches else 1), max(depth, further)
        return steps * (width + weight * int(depth**descents))

    return cost


def _weight(value: object) -> tuple[int, int]:
    """Return how many values there are, long texts and values below long keys as several, and how deep they nest."""
    weight, deepest = 0, 1
    waiting = [(value, 1, 0)]
    while waiting:
        each, depth, above = waiting.pop()
        deepest = max(deepest, depth)
        weight += 1 + (above + (len(each) if isinstance(each, str) else 0)) // _CHARACTERS
        waiting += (
            (child, depth + 1, above + (len(key) if isinstance(key, str) else 0))
            for key, child in _children(each)
        )
    return weight, deepest
