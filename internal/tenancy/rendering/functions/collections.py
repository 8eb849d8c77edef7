"""Functions on lists, defaults, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from jinja2 import Undefined

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.functions.numbers import exact_int
from internal.tenancy.rendering.limits import check_list_length, check_text_length
from internal.tenancy.rendering.values import Missing, is_empty, same, to_text


def default(fallback: object, value: object = None, *, boolean: bool = True) -> object:
    """Return the value, or the fallback where it is undefined or empty, as sprig has it."""
    return fallback if empty(value) else value


def empty(value: object) -> bool:
    """Whether the value is undefined, None, false, 0 or without content."""
    return isinstance(value, Undefined) or is_empty(value)


def coalesce(*values: object) -> object:
    """Return the first value that is not empty, or None."""
    return next((value for value in values if not empty(value)), None)


def ternary(if_true: object, if_false: object, condition: object) -> object:
    """One of two values."""
    return if_true if condition else if_false


def bounded_range(*bounds: int) -> list[int]:
    """`range(stop)` or `range(start, stop, step)`, of bounded length."""
    try:
        span = range(*bounds)
        length = len(span)
    except (TypeError, ValueError, OverflowError):
        raise TemplateError("range: the bounds are not usable numbers") from None
    check_list_length(length)
    return list(span)


def join(separator: object, items: object) -> str:
    """Return the items as text, separated."""
    parts = texts_of(items)
    between = to_text(separator)
    check_text_length(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def texts_of(items: object) -> list[str]:
    """Return the elements as text, without nil; of a single value a list of one."""
    if items is None:
        return []
    if not isinstance(items, list | tuple | Mapping):
        return [to_text(items)]
    return [to_text(item) for item in elements(items) if item is not None]


def until(stop: object) -> list[int]:
    """Return the whole numbers from 0 up or down to, not including, the given one."""
    end = exact_int(stop)
    return bounded_range(0, end, 1 if end >= 0 else -1)


def until_step(start: object, stop: object, step: object) -> list[int]:
    """Return the whole numbers from `start` to `stop`, not included; none if the step leads away."""
    first, end, by = map(exact_int, (start, stop, step))
    return bounded_range(first, end, by) if by else []


def seq(*bounds: object) -> str:
    """Numbers as text: `seq 5`, `seq first last` or `seq first step last`, all inclusive."""
    numbers = [exact_int(bound) for bound in bounds]
    if not 1 <= len(numbers) <= 3:
        return ""
    first = numbers[0] if len(numbers) > 1 else 1
    end = numbers[-1]
    towards = 1 if end >= first else -1
    step = numbers[1] if len(numbers) == 3 else towards
    if step * towards <= 0:
        return ""
    return " ".join(map(str, bounded_range(first, end + towards, step)))


def prepend(items: object, value: object) -> list[Any]:
    """Return the list with one more element at its start."""
    return [value, *elements(items)]


def chunk(size: object, items: object) -> list[list[Any]]:
    """Return the list in lists of the given size; the last may be shorter."""
    width, found = exact_int(size), elements(items)
    if width < 1:
        raise TemplateError("chunk: the size has to be at least 1")
    return [found[start : start + width] for start in range(0, len(found), width)]


def without(items: object, *left_out: object) -> list[Any]:
    """Return the list without any of the values."""
    unwanted = set(map(_identity, left_out))
    return [item for item in elements(items) if _identity(item) not in unwanted]


def cut(items: object, *bounds: object) -> str | list[Any]:
    """Return the part of a list, or of a text's characters, from the first bound up to the second."""
    whole = items if isinstance(items, str) else elements(items)
    if len(bounds) > 2:
        raise TemplateError("slice: it takes at most two bounds")
    start = exact_int(bounds[0]) if bounds else 0
    end = exact_int(bounds[1]) if len(bounds) > 1 else len(whole)
    if not 0 <= start <= end <= len(whole):
        raise TemplateError("slice: out of range")
    return whole[start:end]


def split(separator: object, text: object) -> dict[str, str]:
    """Return the parts of a text as a mapping: `_0`, `_1` and so on."""
    return _numbered(split_list(separator, text))


def splitn(separator: object, most: object, text: object) -> dict[str, str]:
    """Like `split`, with at most so many parts; all when the number is negative."""
    count, between, whole = exact_int(most), to_text(separator), to_text(text)
    if count == 0:
        return {}
    if count < 0:
        return split(separator, text)
    if not between:
        parts = list(whole[: count - 1])
        rest = whole[count - 1 :]
        return _numbered([*parts, rest] if rest else parts)
    check_list_length(min(count, whole.count(between) + 1))
    return _numbered(whole.split(between, count - 1))


def _numbered(parts: Sequence[str]) -> dict[str, str]:
    return {f"_{place}": part for place, part in enumerate(parts)}


def split_list(separator: object, text: object) -> list[str]:
    """Return the parts of a text between separators; its characters when the separator is empty."""
    whole, between = to_text(text), to_text(separator)
    check_list_length(whole.count(between) + 1 if between else len(whole))
    return whole.split(between) if between else list(whole)


def index(collection: object, *keys: object) -> object:
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


def elements(items: object) -> list[Any]:
    """Return what a loop passes through: a list's elements, or a mapping's values in the order of its keys."""
    if isinstance(items, Mapping):
        return [items[key] for key in sorted(items, key=to_text)]
    if isinstance(items, list | tuple):
        return list(items)
    if isinstance(items, int) and not isinstance(items, bool):
        return list(bounded_range(items))
    if items is None:
        return []
    raise TemplateError("a list or a mapping is needed here")


def pairs(items: object) -> list[tuple[Any, Any]]:
    """`(index, element)` of a list, or `(key, value)` of a mapping in the order of its keys."""
    if isinstance(items, Mapping):
        return [(key, items[key]) for key in sorted(items, key=to_text)]
    return list(enumerate(elements(items)))


def first(items: object) -> object:
    """Return the first element, or None of an empty list."""
    found = items[:1] if isinstance(items, str) else elements(items)[:1]
    return found[0] if found else None


def last(items: object) -> object:
    """Return the last element, or None of an empty list."""
    found = items[-1:] if isinstance(items, str) else elements(items)[-1:]
    return found[0] if found else None


def unique(items: object) -> list[Any]:
    """Return the elements without repetitions, in their first order."""
    seen: dict[str, Any] = {}
    for item in elements(items):
        seen.setdefault(_identity(item), item)
    return list(seen.values())


def _identity(value: object) -> str:
    return f"{type(value).__name__}:{to_text(value)}"


def append(items: object, value: object) -> list[Any]:
    """Return the list with one more element."""
    return [*elements(items), value]


def concat(*lists: object) -> list[Any]:
    """All lists in one."""
    joined = [item for items in lists for item in elements(items)]
    check_list_length(len(joined))
    return joined


def length(value: object) -> int:
    """How many characters, elements or keys."""
    if isinstance(value, str | Mapping | list | tuple):
        return len(value)
    raise TemplateError("len: the value has no length")


def equal(value: object, *others: object) -> bool:
    """Whether the value equals any of the others; text is never compared with a number."""
    return any(_comparable("eq", value, other) and value == other for other in others)


def ordered(name: str, decide: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison of two numbers or two texts."""

    def compare(left: object, right: object) -> bool:
        _comparable(name, left, right)
        return decide(left, right)

    return compare


def _comparable(name: str, left: object, right: object) -> bool:
    numbers = isinstance(left, int | float), isinstance(right, int | float)
    texts = isinstance(left, str), isinstance(right, str)
    if numbers[0] != numbers[1] and (texts[0] or texts[1]):
        raise TemplateError(f"{name}: text is compared with a number; use int, float or toString")
    return True


def fail(message: object) -> NoReturn:
    """End the rendering. The message is what is literal in the template, never a value: see `syntax`."""
    text = to_text(message)
    raise TemplateError(f"fail: {text}" if text else "the template calls fail")


COLLECTIONS: dict[str, Callable[..., Any]] = {
    "default": default,
    "empty": empty,
    "coalesce": coalesce,
    "ternary": ternary,
    "list": lambda *items: list(items),
    "range": bounded_range,
    "until": until,
    "untilStep": until_step,
    "seq": seq,
    "join": join,
    "splitList": split_list,
    "index": index,
    "has": lambda item, items: any(same(item, each) for each in elements(items)),
    "each": elements,
    "pairs": pairs,
    "first": first,
    "last": last,
    "initial": lambda items: elements(items)[:-1],
    "rest": lambda items: elements(items)[1:],
    "append": append,
    "prepend": prepend,
    "chunk": chunk,
    "compact": lambda items: [item for item in elements(items) if not empty(item)],
    "without": without,
    "slice": cut,
    "toStrings": texts_of,
    "split": split,
    "splitn": splitn,
    "all": lambda *values: not any(map(empty, values)),
    "any": lambda *values: not all(map(empty, values)),
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


def loses_list(items: object) -> str:
    """Return what is lost where something else stands for a list; empty if nothing."""
    if items is None:
        return "null became an empty list"
    return "a number became a list" if isinstance(items, int) else ""


def loses_texts(items: object) -> str:
    """Return what `join` loses where something else stands for a list; empty if nothing."""
    is_list = isinstance(items, list | tuple | Mapping)
    return "" if is_list else loses_list(items) or "a single value became a list of one"


LOSSY_LISTS: dict[str, Callable[..., str]] = {
    **dict.fromkeys(
        "append prepend first rest last initial reverse uniq without slice compact sortAlpha".split(),  # noqa: SIM905
        lambda items, *_, **__: loses_list(items),
    ),
    **dict.fromkeys(("has", "chunk"), lambda _, items, **__: loses_list(items)),
    "concat": lambda *lists: next(filter(None, map(loses_list, lists)), ""),
    "join": lambda _, items: loses_texts(items),
    "toStrings": loses_texts,
}
"""Functions of lists, and what each lost of what stood for its list. A loop is none: `range 3` is meant."""
