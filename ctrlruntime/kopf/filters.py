"""Whether a handler is for an object, and for what happened to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.kopf.bodies import ABSENT_VALUE, Body, Diff, diff_of, resolve
from ctrlruntime.kopf.registry import ABSENT, CHANGING, PRESENT, Handler

__all__ = ["Cause", "all_", "any_", "matches", "none_", "not_"]

Kwargs = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Cause:
    """What handlers are called for. `kwargs` is what all of them are given."""

    reason: str
    body: Body
    old: Mapping[str, Any] | None = None
    new: Mapping[str, Any] | None = None
    initial: bool = False
    """The object was there when the operator started, and its resume handlers have not run."""
    kwargs: dict[str, Any] = field(default_factory=dict)

    def of_field(self, handler: Handler) -> dict[str, Any]:
        """Return `old`, `new` and `diff`, reduced to the field of a handler."""
        old: Any = self.old
        new: Any = self.new
        if handler.field:
            old, new = resolve(old, handler.field), resolve(new, handler.field)
        diff: Diff = tuple(diff_of(old, new))
        return {"old": old, "new": new, "diff": diff}


def matches(handler: Handler, cause: Cause) -> bool:
    """Whether a handler is to be called. Raises what its own filters raise."""
    return (
        _is_for(handler, cause)
        and _all_match(handler.labels, cause.body.meta.labels, cause.kwargs)
        and _all_match(handler.annotations, cause.body.meta.annotations, cause.kwargs)
        and _value_matches(handler, cause)
        and _change_matches(handler, cause)
        and (handler.when is None or bool(handler.when(**_when_kwargs(handler, cause))))
    )


def _is_for(handler: Handler, cause: Cause) -> bool:
    if handler.reason == "resume":
        going = cause.reason == "delete"
        return cause.initial and (not going or bool(handler.options.get("deleted")))
    return handler.reason in ("field", cause.reason)


def _when_kwargs(handler: Handler, cause: Cause) -> Kwargs:
    extra = cause.of_field(handler) if handler.reason in CHANGING else {}
    return {**cause.kwargs, "param": handler.param, **extra}


def _all_match(
    patterns: Mapping[str, Any] | None, values: Mapping[str, str], kwargs: Kwargs
) -> bool:
    return all(
        _fits(pattern, values.get(name, ABSENT_VALUE), kwargs)
        for name, pattern in (patterns or {}).items()
    )


def _fits(pattern: object, value: object, kwargs: Kwargs) -> bool:
    is_absent = value is ABSENT_VALUE
    if pattern is None or pattern is PRESENT:
        return not is_absent
    if pattern is ABSENT:
        return is_absent
    if callable(pattern):
        return bool(pattern(None if is_absent else value, **kwargs))
    return value == pattern


def _value_matches(handler: Handler, cause: Cause) -> bool:
    """Of a change the new value or the old one has to fit, otherwise that of the object."""
    if not handler.field:
        return True
    bodies = [cause.new, cause.old] if handler.reason in CHANGING else [cause.body]
    values = [resolve(body, handler.field, ABSENT_VALUE) for body in bodies]
    return any(_fits(handler.value, value, cause.kwargs) for value in values)


def _change_matches(handler: Handler, cause: Cause) -> bool:
    if not handler.field or handler.reason not in CHANGING:
        return True
    old = resolve(cause.old, handler.field, ABSENT_VALUE)
    new = resolve(cause.new, handler.field, ABSENT_VALUE)
    return (
        (not handler.needs_change or old != new)
        and (handler.old is None or _fits(handler.old, old, cause.kwargs))
        and (handler.new is None or _fits(handler.new, new, cause.kwargs))
    )


Check = Callable[..., bool]


def not_(check: Check) -> Check:
    """Return a filter that is true where another is false."""
    return lambda *args, **kwargs: not check(*args, **kwargs)


def all_(checks: list[Check]) -> Check:
    """Return a filter that is true where all of these are."""
    return lambda *args, **kwargs: all(check(*args, **kwargs) for check in checks)


def any_(checks: list[Check]) -> Check:
    """Return a filter that is true where one of these is."""
    return lambda *args, **kwargs: any(check(*args, **kwargs) for check in checks)


def none_(checks: list[Check]) -> Check:
    """Return a filter that is true where none of these is."""
    return not_(any_(checks))
