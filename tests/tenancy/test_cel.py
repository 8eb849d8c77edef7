"""CEL expressions: the language as another evaluator has it, what is refused with its place, and what one may cost."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.envtest.schema.evaluator import cel
from internal.tenancy.cel import CelError, compile_expression, evaluate

SELF: dict[str, Any] = {
    "spec": {"replicas": 3, "ratio": 0.5, "paused": False, "none": None, "image": "app:v2"},
    "metadata": {"labels": {"team-a": "x", "tier": "web"}, "generation": 4},
    "status": {
        "observed": 4,
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Synced", "status": "False", "reason": "Late"},
        ],
        "addresses": ["10.0.0.1", "10.0.0.2"],
        "numbers": [3, 1, 2],
        "empty": [],
    },
}

SAME = [
    "self.spec.replicas == 3",
    "self.spec.replicas > 2 && self.spec.replicas <= 3",
    "self.spec.paused || self.metadata.generation == self.status.observed",
    "!self.spec.paused",
    "!!self.spec.paused",
    "has(self.status.ready)",
    "has(self.status.observed) && !has(self.status.conditions[0].reason)",
    "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
    "self.status.conditions.all(c, c.status == 'True')",
    'self.status.conditions.exists_one(c, c.type == "Synced")',
    "self.status.conditions.filter(c, c.status == 'True').size() == 1",
    "self.status.conditions.map(c, c.type) == ['Ready', 'Synced']",
    "self.status.numbers.map(n, n > 1, n * 2) == [6, 4]",
    "self.metadata.labels['team-a'] == 'x'",
    "'tier' in self.metadata.labels && !('none' in self.metadata.labels)",
    "2 in self.status.numbers",
    "self.metadata.labels.all(name, name.size() > 3)",
    "self.status.addresses[1].startsWith('10.') && self.status.addresses[0].endsWith('.1')",
    "self.spec.image.contains(':v')",
    "self.spec.none == null",
    "size(self.status.empty) == 0",
    "self.status.observed > 3 ? self.spec.replicas == 3 : false",
    "1 + 2 * 3 - 4 / 2 == 5",
    "-7 / 2 == -3 && -7 % 2 == -1 && 7 % -2 == 1",
    "(1 + 2) * 3 == 9",
    "self.spec.ratio * 2.0 == 1.0",
    "self.spec.replicas == 3.0",
    "self.spec.replicas > 2.5",
    "true != 1",
    "[1, 2] + [3] == [1, 2, 3]",
    "{'a': 1}['a'] == 1 && {'a': 1}.a == 1",
    "'a' + 'b' == \"ab\" && r'\\n' != '\\n' && 'é'.size() == 1",
    "int('12') == 12 && int(2.9) == 2 && double(2) == 2.0 && string(7) == '7'",
    "0x1f == 31 && 1e3 == 1000.0",
    "'b' > 'a' && 'a' <= 'a'",
    "true || self.absent",
    "self.absent || true",
    "self.absent && false",
    "-9223372036854775808 < 0",
    "[[1]].exists(x, x.exists(y, y == 1))",
    "[1].exists(self, self == 1) && self.spec.replicas == 3",
]
ERRORS = [
    "self.absent == 1",
    "self.absent || false",
    "self.status.conditions[2].type == 'x'",
    "self.status.numbers.all(n, n > 'a')",
    "9223372036854775807 + 1 > 0",
    "1 / 0 == 1",
    "1 + 1.0 == 2.0",
    "1 + 'a' == 'b'",
    "int('x') == 1",
    "self.metadata.labels['none'] == 'x'",
]


@pytest.mark.parametrize("expression", SAME)
def test_an_expression_has_the_value_that_another_evaluator_gives_it(expression: str) -> None:
    other = cel.Context(functions={"length": len})
    other.update({"self": SELF})
    expected = cel.compile(expression.replace("size(", "length(")).execute(other)
    assert isinstance(expected, bool)
    assert evaluate(compile_expression(expression), {"self": SELF}) is expected


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.status.conditions.exists(c, c.reason == 'Late')", True),
        ("self.status.conditions.all(c, c.reason == 'Early')", False),
    ],
)
def test_an_item_that_decides_is_enough_whatever_is_wrong_with_others(
    expression: str, value: bool
) -> None:
    assert evaluate(compile_expression(expression), {"self": SELF}) is value


@pytest.mark.parametrize("expression", ERRORS)
def test_an_expression_that_has_no_value_is_an_error_in_both(expression: str) -> None:
    with pytest.raises(CelError):
        evaluate(compile_expression(expression), {"self": SELF})
    context = cel.Context()
    context.update({"self": SELF})
    with pytest.raises(Exception, match=r".*"):
        cel.compile(expression).execute(context)


@pytest.mark.parametrize(
    ("expression", "where", "words"),
    [
        ("self.a = 1", "1:8", "compare with '=='"),
        ("self.a ==", "1:10", "the end of the expression is not expected"),
        ("self.a == 1)", "1:12", "')' is not expected"),
        ("self.a &&\n  sel.b", "2:3", "the variable 'sel' is unknown; known: self"),
        ("self.a == 'x", "1:11", "a text has no end"),
        ("self.a == '\\q'", "1:12", "is not an escape"),
        ("self.a.matches('x+')", "1:8", "matches() is not supported; compare with =="),
        ("timestamp(self.a) < now()", "1:1", "not when time passes"),
        ("self.?a == 1", "1:5", "use has()"),
        ("self.a == 1u", "1:12", "unsigned numbers"),
        ("self.a == b'x'", "1:11", "bytes are not supported"),
        ("has(self)", "1:1", "has() needs a field"),
        ("self.a.all(x == 1)", "1:14", "',' is"),
        ("self.a.all(1, true)", "1:12", "needs the name of a variable first"),
        ("self.a.all(x, x > 0) && x > 0", "1:25", "the variable 'x' is unknown"),
        ("size(self.a, 1) > 0", "1:1", "size() takes 1 arguments"),
        ("9223372036854775808 > self.a", "1:1", "64 bits"),
        ("(" * 30 + "true" + ")" * 30, "1:25", "nests too deep"),
        ("self.a ; 1", "1:8", "';' is not expected"),
    ],
)
def test_what_is_no_expression_is_refused_with_line_and_column(
    expression: str, where: str, words: str
) -> None:
    with pytest.raises(CelError) as error:
        compile_expression(expression)
    assert str(error.value).startswith(f"{where}: ")
    assert words in str(error.value)


@pytest.mark.parametrize("expression", ["a" * 2000, "true" + "&&true" * 150, "!" * 500 + "true"])
def test_what_is_too_long_or_too_deep_is_refused(expression: str) -> None:
    with pytest.raises(CelError, match="at most"):
        compile_expression(expression)


@pytest.mark.criterion("ISSUE15-3-CEL")
@pytest.mark.parametrize(
    "expression",
    [
        "self.n.all(a, self.n.all(b, self.n.all(c, c >= 0)))",
        "self.n.map(a, self.n).map(a, self.n.map(b, a)).size() > 0",
        "self.n.all(a, self == self)",
        "self.n.exists(a, self.text.contains('b'))",
        "self.n.map(a, self.text + self.text).size() > 0",
        "self.n.all(a, !(-1 in self.n))",
        "self.n.exists(a, self.n.exists(b, 'x' == 1)) || true",
        "self.n.map(a, self.n + self.n).size() > 0",
        "self.n.map(a, self.n.map(b, self.text.lowerAscii())).size() > 0",
    ],
)
def test_an_expression_whose_cost_multiplies_ends_soon_with_an_error(expression: str) -> None:
    hostile = {"n": list(range(5000)), "text": "a" * 500_000}
    began = time.process_time()
    with pytest.raises(CelError, match="costs more than"):
        evaluate(compile_expression(expression), {"self": hostile})
    assert time.process_time() - began < 5.0


@given(st.text(alphabet="self.ab[]()!&|=<>+-*/%?:,'\"\\ 019{}inhasxalltrue", max_size=40))
def test_any_text_is_refused_or_evaluates_and_then_gives_the_same_value_again(text: str) -> None:
    with contextlib.suppress(CelError):
        compiled = compile_expression(text)
        assert evaluate(compiled, {"self": SELF}) == evaluate(compiled, {"self": SELF})


def test_a_manager_without_expressions_imports_no_evaluator() -> None:
    code = "import sys, internal.tenancy.tenant.reconciler; print('internal.tenancy.cel' in sys.modules, 'cel' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
