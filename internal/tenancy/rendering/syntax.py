"""One template's syntax tree: what is allowed, what is rewritten, where it may run.

Functions are only ever called as filters, so that a variable of the same name never hides them and
they never stand in for a variable that is missing. Loops count their steps, `~` is a function. What an
operation works on is weighed before it runs, unless the operation is listed as one that costs the same for
operands of every size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from internal.tenancy.rendering.errors import TemplateError, UnsupportedConstruct
from internal.tenancy.rendering.functions import (
    FUNCTIONS,
    INTERNAL,
    MUTATING,
    NEEDS_WORKER,
    REFUSED,
    TAKES_UNDEFINED,
)
from internal.tenancy.rendering.golang import GO_PREFIX, ROOT
from internal.tenancy.rendering.sandbox import CONSTANT_TIME_TESTS, STEPS_FILTER, WEIGH_FILTER
from internal.tenancy.rendering.values import check_finite

RESULT = "go_result"
"""The variable a native expression is assigned to."""

_ALLOWED: tuple[type[nodes.Node], ...] = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.List,
    nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.If, nodes.For, nodes.Assign,
    nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr, nodes.Slice,
    nodes.Concat, nodes.Compare, nodes.Operand, nodes.Not, nodes.And, nodes.Or, nodes.Add,
    nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.Neg, nodes.Pos,
    nodes.Break, nodes.Continue,
)  # fmt: skip
CONSTANT_TIME: tuple[type[nodes.Expr], ...] = (
    nodes.Name, nodes.Const, nodes.TemplateData, nodes.And, nodes.Or, nodes.Not, nodes.CondExpr,
    nodes.Getattr, nodes.Neg, nodes.Pos,
)  # fmt: skip
"""Expressions that cost the same for operands of every size."""
METERED: tuple[type[nodes.Expr], ...] = (
    nodes.Filter, nodes.Call, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod,
    nodes.Pow,
)  # fmt: skip
"""Expressions that run in a method of the sandbox, which weighs the operands."""
_SPELLINGS = {
    "Macro": "{% macro %}",
    "CallBlock": "{% call %}",
    "FilterBlock": "{% filter %}",
    "AssignBlock": "{% set %} … {% endset %}",
    "With": "{% with %}",
    "Block": "{% block %}",
    "Extends": "{% extends %}",
    "Include": "{% include %}",
    "Import": "{% import %}",
    "FromImport": "{% from %}",
    "ScopedEvalContextModifier": "{% autoescape %}",
}
_MOST_NODES = 20_000
SHORT_LITERAL = 100
"""Characters of a literal that is not weighed where it is an operand."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """A checked tree. `native`: it is one expression. `worker`: it must not run on the event loop."""

    tree: nodes.Template
    native: bool
    worker: bool
    variables: frozenset[str]
    optional: frozenset[str]
    mutates: bool
    """Whether it calls a function that changes its argument."""
    nodes: int
    """Size of the tree; inside of loops once, as each of their steps is charged."""


def examine(tree: nodes.Template) -> Syntax:
    """Check and rewrite a parsed template. Raises TemplateError."""
    _check(tree)
    variables, optional = _variables(tree)
    rewritten = _rewrite(tree)
    mutates = False
    for node in _walk(rewritten):
        if isinstance(node, nodes.Filter):
            name = node.name.removeprefix(GO_PREFIX)
            mutates = mutates or name in MUTATING
            if name == "fail" and node.node is not None:
                node.node = nodes.Const(_literal(node.node), lineno=node.lineno)
    worker = any(
        isinstance(node, nodes.For | nodes.Assign)
        or (isinstance(node, nodes.Filter) and node.name.removeprefix(GO_PREFIX) in NEEDS_WORKER)
        for node in _walk(rewritten)
    )
    expression = _single_expression(rewritten)
    if expression is not None:
        target = nodes.Name(RESULT, "store", lineno=1)
        rewritten.body = [nodes.Assign(target, expression, lineno=1)]
        if tree.environment is not None:
            rewritten.set_environment(tree.environment)
    size = _size(rewritten)
    return Syntax(rewritten, expression is not None, worker, variables, optional, mutates, size)


def _literal(node: nodes.Expr) -> str:
    """Return what of a message stands in the template itself; values and what is computed become `…`."""
    if isinstance(node, nodes.Const):
        return node.value if isinstance(node.value, str) else ""
    if not isinstance(node, nodes.Filter) or node.node is None:
        return ""
    name, parts = node.name.removeprefix(GO_PREFIX), [*node.args, node.node]
    if not node.name.startswith(GO_PREFIX) and name == "printf":
        parts = [node.node, *node.args]
    if name == "printf":
        return re.sub(r"%[-+# 0-9.]*([a-zA-Z%])", _verb, _literal(parts[0]))
    if name in {"concatText", "print"}:
        return "".join(_literal(part) or "…" for part in parts)
    return ""


def _verb(found: re.Match[str]) -> str:
    return "%" if found[1] == "%" else "…"


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(found.iter_child_nodes())


def _size(*roots: nodes.Node) -> int:
    return sum(1 for root in roots for _ in _walk(root))


def _check(tree: nodes.Template) -> None:
    leaves = (nodes.Break, nodes.Continue)
    in_loops = {
        id(node)
        for loop in tree.find_all(nodes.For)
        for each in loop.body
        for node in each.find_all(leaves)
    } | {
        id(node)
        for loop in tree.find_all(nodes.For)
        for node in loop.body
        if isinstance(node, leaves)
    }
    for count, node in enumerate(_walk(tree)):
        if isinstance(node, leaves) and id(node) not in in_loops:
            raise TemplateError("break and continue stand inside of a loop only")
        if count > _MOST_NODES:
            raise TemplateError("the template is too large")
        if not isinstance(node, _ALLOWED):
            name = type(node).__name__
            raise UnsupportedConstruct(f"{_SPELLINGS.get(name, name)} is not supported")
        if isinstance(node, nodes.For) and node.recursive:
            raise UnsupportedConstruct("recursive loops are not supported")
        if isinstance(node, nodes.Name) and node.ctx == "store" and node.name in {ROOT, RESULT}:
            raise UnsupportedConstruct(f"the name {node.name!r} is reserved")
        if isinstance(node, nodes.Const) and isinstance(node.value, float):
            check_finite(node.value)  # 1e999: Jinja would write it as the Python name `inf`
        elif isinstance(node, nodes.Filter):
            _check_filter(node)


def _check_filter(node: nodes.Filter) -> None:
    if node.node is None:
        raise UnsupportedConstruct("{% filter %} is not supported")
    name = node.name.removeprefix(GO_PREFIX)
    if node.name != name and name in INTERNAL:
        return
    if name in REFUSED:
        raise UnsupportedConstruct(f"the function {name!r} is refused: {REFUSED[name]}")
    if name not in FUNCTIONS:
        raise TemplateError(f"there is no function {name!r}")


class _Rewriting(NodeTransformer):
    """Calls of functions become filters; loops, `~` and the operands of operations pass through the meter."""

    def visit(self, node: nodes.Node, *args: object, **kwargs: object) -> nodes.Node:
        """Rewrite a node and what is in it, and weigh its operands unless their sizes do not matter."""
        size = _size(*node.body) if isinstance(node, nodes.For) else 0
        made: nodes.Node = super().visit(node, *args, **kwargs)
        if isinstance(made, nodes.For):
            steps = [nodes.Const(size, lineno=made.lineno)]
            made.iter = nodes.Filter(
                made.iter, STEPS_FILTER, steps, [], None, None, lineno=made.lineno
            )
        elif isinstance(made, nodes.Getitem):
            field = "node" if isinstance(made.arg, nodes.Slice) else "arg"
            setattr(made, field, _weighed(getattr(made, field)))
        elif _depends_on_sizes(made):
            _weigh_operands(made)
        return made

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.node, nodes.Name):
            return node
        name = node.node.name
        if name in REFUSED:
            raise UnsupportedConstruct(f"the function {name!r} is refused: {REFUSED[name]}")
        if name not in FUNCTIONS:
            raise TemplateError(f"there is no function {name!r}")
        if not node.args:
            if name not in {"list", "tuple", "dict"}:
                raise TemplateError(f"the function {name!r} needs an argument")
            empty: nodes.Expr = nodes.Dict([]) if name == "dict" else nodes.List([])
            return empty.set_lineno(node.lineno)
        *others, last = node.args
        return nodes.Filter(
            last, GO_PREFIX + name, others, node.kwargs, None, None, lineno=node.lineno
        )

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        *others, last = node.nodes
        name = f"{GO_PREFIX}concatText"
        return nodes.Filter(last, name, others, [], None, None, lineno=node.lineno)


def _rewrite(tree: nodes.Template) -> nodes.Template:
    rewritten = _Rewriting().visit(tree)
    if not isinstance(rewritten, nodes.Template):
        raise TypeError("a template stays one")
    return rewritten


def _depends_on_sizes(node: nodes.Node) -> bool:
    """Whether an operation may cost more for larger operands and is not weighed elsewhere."""
    if not isinstance(node, nodes.Expr) or isinstance(node, CONSTANT_TIME + METERED):
        return False
    if isinstance(node, nodes.Test):
        return node.name not in CONSTANT_TIME_TESTS
    return getattr(node, "ctx", "load") == "load"


def _weigh_operands(node: nodes.Node) -> None:
    for name, value in list(node.iter_fields()):
        if isinstance(value, nodes.Expr):
            setattr(node, name, _weighed(value))
        elif isinstance(value, nodes.Helper):
            _weigh_operands(value)
        elif isinstance(value, list):
            value[:] = [_weighed(item) if isinstance(item, nodes.Expr) else item for item in value]
            for item in value:
                if isinstance(item, nodes.Helper):
                    _weigh_operands(item)


def _weighed(node: nodes.Expr) -> nodes.Expr:
    """Return the expression with its value weighed; numbers and short texts of the template weigh nothing."""
    if isinstance(node, nodes.Const) and len(str(node.value)) <= SHORT_LITERAL:
        return node
    return nodes.Filter(node, WEIGH_FILTER, [], [], None, None, lineno=node.lineno)


def _single_expression(tree: nodes.Template) -> nodes.Expr | None:
    """Return the expression, if the template is nothing but one; empty comments do not count."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    parts = [part for part in tree.body[0].nodes if not _is_nothing(part)]
    if len(parts) != 1 or isinstance(parts[0], nodes.TemplateData):
        return None
    return parts[0]


def _is_nothing(node: nodes.Expr) -> bool:
    if isinstance(node, nodes.TemplateData):
        return node.data == ""
    return isinstance(node, nodes.Const) and node.value == ""


def _variables(tree: nodes.Template) -> tuple[frozenset[str], frozenset[str]]:
    """Names of variables read, and those of them only ever read by `default` and its like."""
    assigned = {
        node.name for node in _walk(tree) if isinstance(node, nodes.Name) and node.ctx != "load"
    }
    called = {
        id(node.node)
        for node in _walk(tree)
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name)
    }
    guarded = set(_guarded(tree))
    needed: set[str] = set()
    optional: set[str] = set()
    for node in _walk(tree):
        name = _variable_name(node)
        if name and name not in assigned | {ROOT, "loop"} and id(node) not in called:
            (optional if id(node) in guarded else needed).add(name)
    return frozenset(needed | optional), frozenset(optional - needed)


def _variable_name(node: nodes.Node) -> str | None:
    if isinstance(node, nodes.Name) and node.ctx == "load":
        return node.name
    if not isinstance(node, nodes.Getitem) or not isinstance(node.node, nodes.Name):
        return None
    if node.node.name != ROOT or not isinstance(node.arg, nodes.Const):
        return None
    return str(node.arg.value)


def _guarded(tree: nodes.Template) -> Iterator[int]:
    """Nodes whose being undefined is no error: arguments of default, empty, coalesce and `is defined`."""
    for node in _walk(tree):
        arguments: list[nodes.Node] = []
        if isinstance(node, nodes.Filter) and node.node is not None:
            name = node.name.removeprefix(GO_PREFIX)
            if name in TAKES_UNDEFINED:
                arguments = [node.node, *node.args]
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
            if node.node.name in TAKES_UNDEFINED:
                arguments = list(node.args)
        elif isinstance(node, nodes.Test) and node.name in {"defined", "undefined"}:
            arguments = [node.node]
        for argument in arguments:
            while isinstance(argument, nodes.Getattr | nodes.Getitem):
                yield id(argument)
                argument = argument.node
            yield id(argument)
