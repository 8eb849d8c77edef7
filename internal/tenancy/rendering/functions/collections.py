"""Functions on lists and mappings, defaults, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import Undefined

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.limits import check_list_length, check_text_length
from internal.tenancy.rendering.values import Missing, is_empty, to_text


def default(fallback: Any, value: Any = None, *, boolean: bool = True) -> Any:
    """The value, or the fallback where it is undefined or empty, as sprig has it."""
    return fallback if empty(value) else value


def empty(value: Any) -> bool:
    """Whether the value is undefined, None, false, 0 or without content."""
    return isinstance(value, Undefined) or is_empty(value)


def coalesce(*values: Any) -> Any:
    """The first value that is not empty, or None."""
    return next((value for value in values if not empty(value)), None)


def ternary(if_true: Any, if_false: Any, condition: Any) -> Any:
    """One of two values."""
    return if_true if condition else if_false


def make_dict(*pairs: Any) -> dict[str, Any]:
    """A mapping of `key value key value ...`."""
    if len(pairs) % 2:
        raise TemplateError("dict: the last key has no value")
    return {to_text(pairs[i]): pairs[i + 1] for i in range(0, len(pairs), 2)}


def bounded_range(*bounds: int) -> list[int]:
    """`range(stop)` or `range(start, stop, step)`, of bounded length."""
    try:
        span = range(*bounds)
        length = len(span)
    except (TypeError, ValueError, OverflowError):
        raise TemplateError("range: the bounds are not usable numbers") from None
    check_list_length(length)
    return list(span)


def join(separator: Any, items: Any) -> str:
    """The items as text, separated."""
    parts = [to_text(item) for item in elements(items)]
    between = to_text(separator)
    check_text_length(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def split_list(separator: Any, text: Any) -> list[str]:
    """The parts of a text between separators; its characters when the separator is empty."""
    whole, between = to_text(text), to_text(separator)
    check_list_length(whole.count(between) + 1)
    return whole.split(between) if between else list(whole)


def index(collection: Any, *keys: Any) -> Any:
    """`collection[key]...`; a missing key is undefined, an index out of range an error."""
    value = collection
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(to_text(key), Missing())
        elif isinstance(value, Sequence) and isinstance(key, int):
            if not -len(value) <= key < len(value):
                raise TemplateError("index: out of range")
            value = value[key]
        else:
            raise TemplateError("index: the value has no such keys")
    return value


def elements(items: Any) -> list[Any]:
    """What a loop passes through: a list's elements, or a mapping's values in the order of its keys."""
    if isinstance(items, Mapping):
        return [items[key] for key in sorted(items, key=to_text)]
    if isinstance(items, list | tuple):
        return list(items)
    if isinstance(items, int) and not isinstance(items, bool):
        return list(bounded_range(items))
    if items is None:
        return []
    raise TemplateError("a list or a mapping is needed here")


def pairs(items: Any) -> list[tuple[Any, Any]]:
    """`(index, element)` of a list, or `(key, value)` of a mapping in the order of its keys."""
    if isinstance(items, Mapping):
        return [(key, items[key]) for key in sorted(items, key=to_text)]
    return list(enumerate(elements(items)))


def keys(mapping: Any) -> list[str]:
    """The keys in order."""
    if not isinstance(mapping, Mapping):
        raise TemplateError("keys: the value is not a mapping")
    return sorted(map(to_text, mapping))


def first(items: Any) -> Any:
    """The first element, or None of an empty list."""
    found = items[:1] if isinstance(items, str) else elements(items)[:1]
    return found[0] if found else None


def last(items: Any) -> Any:
    """The last element, or None of an empty list."""
    found = items[-1:] if isinstance(items, str) else elements(items)[-1:]
    return found[0] if found else None


def unique(items: Any) -> list[Any]:
    """The elements without repetitions, in their first order."""
    seen: dict[str, Any] = {}
    for item in elements(items):
        seen.setdefault(f"{type(item).__name__}:{to_text(item)}", item)
    return list(seen.values())


def append(items: Any, value: Any) -> list[Any]:
    """The list with one more element."""
    return [*elements(items), value]


def concat(*lists: Any) -> list[Any]:
    """All lists in one."""
    joined = [item for items in lists for item in elements(items)]
    check_list_length(len(joined))
    return joined


def length(value: Any) -> int:
    """How many characters, elements or keys."""
    if isinstance(value, str | Mapping | list | tuple):
        return len(value)
    raise TemplateError("len: the value has no length")


def equal(value: Any, *others: Any) -> bool:
    """Whether the value equals any of the others; text is never compared with a number."""
    return any(_comparable("eq", value, other) and value == other for other in others)


def ordered(name: str, decide: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """A comparison of two numbers or two texts."""

    def compare(left: Any, right: Any) -> bool:
        _comparable(name, left, right)
        return decide(left, right)

    return compare


def _comparable(name: str, left: Any, right: Any) -> bool:
    numbers = isinstance(left, int | float), isinstance(right, int | float)
    texts = isinstance(left, str), isinstance(right, str)
    if numbers[0] != numbers[1] and (texts[0] or texts[1]):
        raise TemplateError(f"{name}: text is compared with a number; use int, float or toString")
    return True


def fail(message: Any) -> Any:
    """Ends the rendering. The message is the template author's, so it is not repeated here."""
    raise TemplateError("the template calls fail")


COLLECTIONS: dict[str, Callable[..., Any]] = {
    "default": default,
    "empty": empty,
    "coalesce": coalesce,
    "ternary": ternary,
    "list": lambda *items: list(items),
    "dict": make_dict,
    "range": bounded_range,
    "until": bounded_range,
    "join": join,
    "splitList": split_list,
    "index": index,
    "get": lambda mapping, key: mapping.get(to_text(key), ""),
    "hasKey": lambda mapping, key: to_text(key) in mapping,
    "keys": keys,
    "values": elements,
    "has": lambda item, items: item in elements(items),
    "each": elements,
    "pairs": pairs,
    "first": first,
    "last": last,
    "initial": lambda items: elements(items)[:-1],
    "rest": lambda items: elements(items)[1:],
    "append": append,
    "concat": concat,
    "reverse": lambda items: elements(items)[::-1],
    "uniq": unique,
    "sortAlpha": lambda items: sorted(to_text(item) for item in elements(items)),
    "len": length,
    "eq": equal,
    "ne": lambda left, right: not equal(left, right),
    "lt": ordered("lt", lambda left, right: left < right),
    "le": ordered("le", lambda left, right: left <= right),
    "gt": ordered("gt", lambda left, right: left > right),
    "ge": ordered("ge", lambda left, right: left >= right),
    "fail": fail,
}
