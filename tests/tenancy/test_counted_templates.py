"""Every operation of a template is charged by the size of what it works on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Undefined, nodes

from internal.tenancy.rendering.errors import LimitExceeded
from internal.tenancy.rendering.limits import INLINE, KIB, Limits
from internal.tenancy.rendering.syntax import _ALLOWED, CONSTANT_TIME, METERED
from internal.tenancy.rendering.templates import Templates, namespace

pytestmark = pytest.mark.criterion("S-F3")

SIZE = 256 * KIB
VARIABLES = namespace({"a": "x" * SIZE, "b": "y" * SIZE, "c": ["z" * SIZE], "d": {"k" * SIZE: 1}})
UNLIMITED = Limits(steps=100_000, work=1 << 60, output=1 << 60)

OPERATIONS = (
    "(b in a)", "(a in c)", "(a not in d)", "(a == b)", "(a != b)", "(a < b)", "(a <= b <= a)",
    "(c == c)", "(d == d)", "(a[::-1])", "(a[1:])", "(c[:] == c)", "(a is eq(b))", "(b is in(a))",
    "(a is lower)", "(a is upper)", "(a is ne(b))", "(a ~ 1)", "(a + 'x')", "(a | lower)",
    "(a.upper())", "(a.find(b))", "(a.startswith(b))", "[a]", "(a,)", "{'k': a}", "{a: 1}",
    "('x'.split(sep=a))", "(c | toJson)", "(d | toJson)",
)  # fmt: skip
"""Each works on at least one of the largest values."""

operands = st.sampled_from(OPERATIONS)
expressions = st.recursive(
    operands,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"[{pair[0]} and 1, {pair[1]} or 1]"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} is defined) ~ ({pair[1]} is string)"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} if {pair[1]} else {pair[0]})"),
        inner.map(lambda one: f"(not {one})"),
    ),
    max_leaves=12,
)


def charged(text: str) -> int:
    """Return the work that a template is charged, in characters."""
    templates = Templates()
    templates.meter.begin(UNLIMITED)
    templates.render(text, VARIABLES)
    return UNLIMITED.work - templates.meter._work


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_charged_by_the_size_of_its_operands(operation: str) -> None:
    assert charged(f"{{{{ ({operation}) is defined }}}}") >= SIZE


@given(expressions)
@settings(max_examples=60, deadline=None)
def test_no_tree_does_more_than_the_limit_of_a_slice(expression: str) -> None:
    condition = " and ".join([f"({expression} is defined)"] * 12)
    text = f"{{% if {condition} %}}{{% endif %}}"
    templates = Templates()
    templates.meter.begin(INLINE)
    with pytest.raises(LimitExceeded):
        templates.render(text, VARIABLES)
    assert INLINE.work - templates.meter._work <= INLINE.work + 64 * SIZE


def test_a_kind_of_node_is_charged_unless_it_is_listed_as_free() -> None:
    rest = {
        kind
        for kind in _ALLOWED
        if issubclass(kind, nodes.Expr) and not issubclass(kind, CONSTANT_TIME + METERED)
    }
    assert rest == {
        nodes.Compare, nodes.Concat, nodes.Dict, nodes.Getitem, nodes.List, nodes.Slice, nodes.Test,
        nodes.Tuple,
    }  # fmt: skip


def test_a_step_of_a_loop_is_charged_by_what_is_in_it() -> None:
    short, long = (
        charged("{% for i in range(100) %}" + "{{ i }}" * times + "{% endfor %}")
        for times in (1, 50)
    )
    assert long > 20 * short


def test_what_a_message_would_write_out_is_not_kept() -> None:
    templates = Templates()
    missing = templates._sandbox.getitem({}, ["x" * SIZE] * 1000)
    assert isinstance(missing, Undefined)
    assert missing._undefined_name == "list"
