"""JSONPath expressions of `ignoreFields` and `readyWhen`: which are accepted. Imports the parser, so it is imported on use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import jsonpath
from jsonpath import CompoundJSONPath, JSONPath, JSONPathError
from jsonpath.filter import (
    BaseExpression,
    CurrentKey,
    FilterContextPath,
    FilterQuery,
    FunctionExtension,
    InfixExpression,
    RegexLiteral,
    RootFilterQuery,
    Undefined,
)
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import Filter, JSONPathSelector, KeySelector, KeysFilter, KeysSelector

from internal.tenancy.objects.path_errors import IgnoreFieldError, ReadyWhenError

__all__ = ["LONGEST_PATH", "JSONPathError", "compiled", "compiled_check", "parts_of"]

LONGEST_PATH: Final = 512
"""Characters of one path."""
MOST_DESCENTS: Final = 2
"""Recursive descents of one path: each multiplies how often a value is looked at by the depth of an object."""
_EXAMPLE: Final = (
    "write for example $.spec.replicas or $.spec.template.spec.containers[?(@.name=='app')].image"
)
_OPERATORS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&", "||", "in", "contains"})
_FIXES: Final = (
    ("unexpected token '='", "compare with =="),
    (
        "non-singular query",
        "compare one value; for any of a list use a filter within the filter: [?@.env[?@.name=='X']]",
    ),
    ("filter expression literals", "compare a field with it"),
)
"""What to do about an error of the parser, by a part of its message."""


@lru_cache(maxsize=512)
def compiled_check(path: str) -> JSONPath:
    """Return a path of `readyWhen` ready to be evaluated. Raises ReadyWhenError.

    One evaluation looks at each value of an object once for every step of the path at most: what
    would multiply (recursive descent, several selectors in one step, queries from the root within a
    filter, unions) is refused.
    """
    try:
        made = compiled(path)
    except IgnoreFieldError as error:
        raise ReadyWhenError(str(error).replace("ignoreFields:", "readyWhen:", 1)) from None
    if isinstance(made, CompoundJSONPath) or not _is_linear(made):
        raise ReadyWhenError(
            f"readyWhen: {path!r} uses '..', a union, or '$' within a filter, which are not supported; "
            "write for example $.status.conditions[?(@.type=='Ready')].status"
        )
    return made


def _is_linear(path: JSONPath) -> bool:
    """Whether no step of the path, or of a query in its filters, visits a value twice."""
    filters = [each for each in _selectors(path) if isinstance(each, Filter)]
    parts = [part for each in filters for part in parts_of(each.expression)]
    if any(isinstance(part, RootFilterQuery | FilterContextPath) for part in parts):
        return False
    queries = [path, *(part.path for part in parts if isinstance(part, FilterQuery))]
    return all(
        not isinstance(segment, JSONPathRecursiveDescentSegment) and len([*segment.selectors]) == 1
        for query in queries
        for segment in query.segments
    )


@lru_cache(maxsize=512)
def compiled(path: str) -> JSONPath | CompoundJSONPath:
    """Return the path ready to be evaluated. Raises IgnoreFieldError."""
    text = path.strip()
    if not text:
        raise IgnoreFieldError("ignoreFields: a path is empty")
    if len(text) > LONGEST_PATH:
        raise IgnoreFieldError(
            f"ignoreFields: {text[:80]!r}… is too long; at most {LONGEST_PATH} characters"
        )
    try:
        made = jsonpath.compile(text if text.startswith("$") else f"$.{text.lstrip('.')}")
        _refuse_unsupported(made, text)
    except RecursionError:
        raise IgnoreFieldError(f"ignoreFields: {text!r} is not a JSONPath; {_EXAMPLE}") from None
    except JSONPathError as error:
        problem = str(error).partition("\n")[0]
        fix = next((fix for part, fix in _FIXES if part in problem), _EXAMPLE)
        raise IgnoreFieldError(
            f"ignoreFields: {text!r} is not a JSONPath; {fix} ({problem})"
        ) from None
    return made


def _refuse_unsupported(path: JSONPath | CompoundJSONPath, text: str) -> None:
    """Raise IgnoreFieldError for what has no place of its own to keep, or an unbounded cost."""
    if text.count("..") > MOST_DESCENTS:
        raise IgnoreFieldError(
            f"ignoreFields: {text!r} has '..' more than {MOST_DESCENTS} times; write out the steps between"
        )
    for selector in _selectors(path):
        if isinstance(selector, KeySelector | KeysSelector | KeysFilter):
            raise IgnoreFieldError(
                f"ignoreFields: {text!r} selects keys (~); select the values instead"
            )
        if not isinstance(selector, Filter):
            continue
        for part in parts_of(selector.expression):
            if problem := _unsupported(part):
                raise IgnoreFieldError(f"ignoreFields: {text!r} {problem}")


def _unsupported(part: BaseExpression) -> str:
    """Return why a part of a filter is refused, and what to write instead; empty if it is not.

    The parser takes more than RFC 9535 has. Of that, what looks for values elsewhere, or matches nothing
    without an error, is refused.
    """
    if isinstance(part, FunctionExtension):
        return (
            f"uses the function {part.name}(), which is not supported; compare fields with "
            "==, !=, <, <=, >, >=, in, && and ||"
        )
    if isinstance(part, RegexLiteral):
        return (
            "uses a pattern (=~), which is not supported; compare fields with ==, !=, in, && and ||"
        )
    if isinstance(part, InfixExpression) and part.operator not in {*_OPERATORS, "=~"}:
        return f"uses {part.operator}, which is not supported; write != or another comparison"
    if isinstance(part, Undefined):
        return "compares with undefined, which is not supported; write !@.field for a field that is absent"
    if isinstance(part, CurrentKey | FilterContextPath):
        return "uses # or _, which are not supported; start with @, the value that is tested"
    if isinstance(part, RootFilterQuery) and part.path.pseudo_root:
        return "uses ^, which is not supported; start with @, the value that is tested"
    return ""


def _selectors(path: JSONPath | CompoundJSONPath) -> Iterator[JSONPathSelector]:
    if isinstance(path, CompoundJSONPath):
        yield from _selectors(path.path)
        for _, other in path.paths:
            yield from _selectors(other)
        return
    for segment in path.segments:
        yield from segment.selectors


def parts_of(expression: BaseExpression) -> Iterator[BaseExpression]:
    """Yield an expression and all within it, once each: the filters of a query are its children."""
    yield expression
    for child in expression.children():
        yield from parts_of(child)
