"""The Jinja environment templates run in: no attributes, no calls and no operators but listed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import BuiltinMethodType
from typing import Any

from jinja2 import Undefined, pass_eval_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ctrlruntime.json import Json
from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.functions import (
    COSTS,
    FUNCTIONS,
    INTERNAL,
    LOSSY,
    SUBJECT_FIRST,
    SUBJECT_SECOND,
    TAKES_UNDEFINED,
)
from internal.tenancy.rendering.golang import GO_PREFIX
from internal.tenancy.rendering.limits import (
    EVALUATION_COST,
    Meter,
    check_integer,
    check_list_length,
)
from internal.tenancy.rendering.limits import check_text_length as check_text
from internal.tenancy.rendering.values import Missing, to_text

STEPS_FILTER = f"{GO_PREFIX}countSteps"
"""Every loop passes its items through this filter, which counts them."""
WEIGH_FILTER = f"{GO_PREFIX}weigh"
"""Every operand of an operation that no method here runs passes through this filter, which charges its size."""
CONSTANT_TIME_TESTS = frozenset(
    "defined undefined none string number mapping sequence iterable boolean integer float true "  # noqa: SIM905
    "false even odd".split()
)
"""Tests that cost the same for values of every size."""

_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(
        "upper lower strip lstrip rstrip startswith endswith split rsplit splitlines title "  # noqa: SIM905
        "capitalize removeprefix removesuffix isdigit isalpha isalnum find count".split()
    ),
    dict: frozenset({"get", "items", "keys", "values"}),
    list: frozenset({"index", "count"}),
    tuple: frozenset({"index", "count"}),
}
_LOOP = frozenset(
    {"index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem"}
)
_TESTS = CONSTANT_TIME_TESTS | frozenset(
    "divisibleby eq equalto ne lt lessthan le gt greaterthan ge in upper lower == != < <= > >=".split()  # noqa: SIM905
)


class Sandbox(ImmutableSandboxedEnvironment):
    """Our functions as filters, nothing global, everything metered by `meter`."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self, meter: Meter) -> None:
        super().__init__(
            undefined=Missing,
            extensions=["jinja2.ext.loopcontrols"],
            autoescape=False,
            optimized=False,
            keep_trailing_newline=True,
            finalize=_finalizing(meter),
            comment_start_string="{##",
            comment_end_string="##}",
            cache_size=0,
        )
        self.meter = meter
        self.globals.clear()
        self.tests = {name: test for name, test in self.tests.items() if name in _TESTS}
        self.filters = self._filters()

    def getitem(self, obj: Json, argument: Json) -> object:
        """`obj[key]`: keys and places only; what is missing is undefined, never a method instead."""
        if isinstance(obj, Undefined):
            return obj
        try:
            return obj[argument]
        except (TypeError, LookupError, AttributeError):
            # An error would write out the name, which may be a list of any size.
            named: Json = argument if isinstance(argument, str | int) else type(argument).__name__
            return self.undefined(obj=obj, name=named)

    def getattr(self, obj: object, attribute: str) -> object:
        """`obj.name`: a mapping's key before its methods, so that data wins."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Return whether an attribute may be read: listed methods of text, lists and mappings, and fields of `loop`."""
        if isinstance(obj, Undefined):
            return True
        if isinstance(obj, LoopContext):
            return attr in _LOOP
        return attr in _METHODS.get(type(obj), ())

    def is_safe_callable(self, obj: object) -> bool:
        """Only bound methods that `is_safe_attribute` let through."""
        return isinstance(obj, BuiltinMethodType) and obj.__name__ in _METHODS.get(
            type(obj.__self__), ()
        )

    def call(
        __self,  # noqa: N805
        __context: object,
        __obj: BuiltinMethodType | Undefined,
        *args: object,
        **kwargs: object,
    ) -> object:
        """Call a listed method; its owner and its arguments count as work."""
        if isinstance(__obj, Undefined):
            return __obj()
        if not __self.is_safe_callable(__obj):
            raise SecurityError("only the documented functions and methods can be called")
        cost = COSTS.get(__obj.__name__, 1)
        __self.meter.weigh(__obj.__self__, cost)
        __self.meter.weigh(args, cost)
        __self.meter.weigh(kwargs, cost)
        result = __obj(*args, **kwargs)
        if isinstance(result, list):
            check_list_length(len(result))
        return list(result) if __obj.__name__ in {"items", "keys", "values"} else result

    def call_binop(self, context: object, operator: str, left: object, right: object) -> object:
        """Arithmetic in 64 bits; texts and lists only by `+`, within their limits."""
        if isinstance(left, int | float) and isinstance(right, int | float):
            return _arithmetic(operator, left, right)
        for operand in (left, right):
            if isinstance(operand, Undefined):
                return operand + 0
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            check_text(len(left) + len(right))
            self.meter.work(len(left) + len(right))
            return left + right
        if operator == "+" and isinstance(left, list) and isinstance(right, list):
            check_list_length(len(left) + len(right))
            self.meter.work(len(left) + len(right))
            return left + right
        if operator == "*":
            raise TemplateError("text and lists are not multiplied; use repeat")
        if operator == "%":
            raise TemplateError("text is not formatted by %; use printf")
        raise TemplateError(f"{operator} needs two numbers; use int or float")

    def _filters(self) -> dict[str, Callable[..., Any]]:
        made: dict[str, Callable[..., Any]] = {}
        for name, function in FUNCTIONS.items():
            exact = self._metered(name, function)
            made[GO_PREFIX + name] = lambda value, *args, _call=exact, **kw: _call(
                *args, value, **kw
            )
            made[name] = _by_subject(name, exact)
        for name, function in INTERNAL.items():
            made[GO_PREFIX + name] = self._metered(name, _last_first(function))
        made[STEPS_FILTER] = self._count_steps
        made[WEIGH_FILTER] = self._weigh
        return made

    def _metered(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        meter = self.meter
        cost = COSTS.get(name, 1)
        strict = name not in TAKES_UNDEFINED
        lost_of = LOSSY.get(name)

        def run(*args: object, **kwargs: object) -> object:
            for value in (*args, *kwargs.values()):
                if isinstance(value, Undefined):
                    if strict:
                        value._fail_with_undefined_error()
                else:
                    meter.weigh(value, cost)
            try:
                result = function(*args, **kwargs)
            except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError):
                message = f"{name}: the number or the kind of its arguments is wrong"
                raise TemplateError(message) from None
            if lost_of is not None and (lost := lost_of(*args, **kwargs)):
                meter.lose(f"{name}: {lost}")
            if isinstance(result, str):
                meter.work(len(result))
            elif isinstance(result, list):
                check_list_length(len(result))
            return result

        return run

    def _weigh(self, value: object) -> object:
        """Charge for an operand and return it."""
        self.meter.weigh(value)
        return value

    def _count_steps(self, items: object, nodes: int) -> list[object]:
        """Return the items of a loop, each charged as a step that runs so many nodes."""
        if isinstance(items, Undefined):
            items._fail_with_undefined_error()
        if isinstance(items, Mapping):
            items = sorted(items, key=to_text)
        check_list_length(len(items) if isinstance(items, list | tuple | str) else 0)
        if not isinstance(items, list | tuple | str):
            raise TemplateError("a loop needs a list or a mapping")
        step, work = self.meter.step, self.meter.work
        counted = []
        for item in items:
            step()
            work(nodes * EVALUATION_COST)
            counted.append(item)
        return counted


def _last_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function for a filter of Go's spelling, whose piped value is the last argument."""
    return lambda value, *args: function(*args, value)


def _by_subject(name: str, exact: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Jinja filter: the piped value goes where the function has its subject."""
    if name in SUBJECT_FIRST:
        return exact
    if name in SUBJECT_SECOND:
        return lambda value, first, *rest: exact(first, value, *rest)
    return lambda value, *args, **kwargs: exact(*args, value, **kwargs)


def _finalizing(meter: Meter) -> Callable[..., Any]:
    """Return what an expression inside a text puts out. Takes a context, so that nothing runs at compile time."""

    @pass_eval_context
    def finalize(_: object, value: object) -> str | Undefined:
        if isinstance(value, str | Undefined):
            return value
        meter.weigh(value)
        return to_text(value)

    return finalize


def _arithmetic(operator: str, left: int | float, right: object) -> int | float:
    if operator == "**":
        if not isinstance(right, int) or not 0 <= right <= 64 or abs(left) > 2**32:
            raise TemplateError("** needs a small base and an exponent from 0 to 64")
        result = left**right
    elif operator in {"/", "//", "%"} and right == 0:
        raise TemplateError("division by zero")
    else:
        result = _OPERATORS[operator](left, right)
    return check_integer(result) if isinstance(result, int) else float(result)


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "//": lambda left, right: left // right,
    "%": lambda left, right: left % right,
}
