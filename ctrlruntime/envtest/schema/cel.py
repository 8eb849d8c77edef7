"""Validation rules of custom resources: ``x-kubernetes-validations``.

The evaluator is the package ``cel``. It has no optional syntax (``a.?b``, ``a[?i]``), no
comprehensions with two variables and no ``cel.bind``. A CRD with such a rule, or with a function
that is not here (those for addresses, URLs and versions), is refused when it is created. No rule is
ever left out at run time.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from ctrlruntime.api.cel_names import cel_name
from ctrlruntime.envtest.schema import causes
from ctrlruntime.envtest.schema.causes import Cause
from ctrlruntime.envtest.schema.cel_library import FUNCTIONS, NATIVE, REFUSED, SIZE
from ctrlruntime.envtest.schema.evaluator import cel
from ctrlruntime.envtest.schema.structural import Structural
from ctrlruntime.envtest.schema.validation import ABSENT, NOWHERE, kind_of, partner_items
from ctrlruntime.json import equal

RULES = "x-kubernetes-validations"

_STRING: Final = r"""[rRbB]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_TOKEN = re.compile(rf"(?P<string>{_STRING})|(?P<size>\bsize(?=\s*\())", re.DOTALL)
_BARE = frozenset(name.rpartition(".")[2] for name in FUNCTIONS) | NATIVE


class RuleError(Exception):
    """A rule that cannot be compiled or evaluated."""


def _source(expression: str) -> str:
    def put(match: re.Match[str]) -> str:
        return match.group(0) if match.group("string") is not None else SIZE

    return _TOKEN.sub(put, expression)


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> cel.Program:
    try:
        program = cel.compile(_source(expression))
    except ValueError as error:
        raise RuleError(_syntax_message(str(error))) from error
    unknown = [
        name
        for name in program.functions()
        if name not in _BARE and name.isidentifier() and not name.startswith("_")
    ]
    if unknown:
        # Members of a value that is refused come with the function that makes it, which says more.
        name = next((name for name in unknown if name in REFUSED), unknown[0])
        raise RuleError(_unknown_function(name, expression))
    return program


def _unknown_function(name: str, expression: str) -> str:
    place = expression.find(name) + len(name) + 1
    why = f"undeclared reference to '{name}' (in container '')"
    if name in REFUSED:
        why = (
            f"the embedded API server does not carry '{name}' of the CEL libraries for addresses, "
            "URLs and versions: test this definition on kube-apiserver"
        )
    return (
        f"compilation failed: ERROR: <input>:1:{place}: {why}\n | {expression}\n"
        f" | {'.' * (place - 1)}^"
    )


def _syntax_message(text: str) -> str:
    head, _, rest = text.partition(": ERROR:")
    lines = ("ERROR:" + rest if rest else head).replace(SIZE, "size").split("\n")
    return "compilation failed: " + "\n".join(
        " " + line if line.startswith("|") else line for line in lines
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    raw: dict[str, Any]
    program: cel.Program
    transition: bool
    optional_old: bool


@lru_cache(maxsize=4096)
def _is_transition(expression: str) -> bool:
    return "oldSelf" in _compiled(expression).variables()


def _rule(raw: dict[str, Any]) -> _Rule:
    text = raw["rule"]
    return _Rule(raw, _compiled(text), _is_transition(text), bool(raw.get("optionalOldSelf")))


def has_rules(node: Structural) -> bool:
    return bool(node.raw.get(RULES)) or any(has_rules(child) for child in node.children())


# --- values --------------------------------------------------------------------------------------


_UNKNOWN = "\0unknown"
"""Where a preserved object has its fields without a schema: no rule can name them, equality compares them."""


def escaped(name: str) -> str | None:
    """Return a property name as an identifier of CEL; None where it cannot be one."""
    text = cel_name(name)
    return text if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) else None


def to_cel(value: object, node: Structural, *, root: bool = False) -> object:
    """Return a value as rules see it: typed by the schema, names escaped, unknown fields left out."""
    if value is None or node.int_or_string:
        return value
    if isinstance(value, dict):
        return _map_to_cel(value, node, root)
    if isinstance(value, list):
        items = node.items
        return value if items is None else [to_cel(item, items) for item in value]
    if node.type == "number" and not isinstance(value, bool):
        return float(value) if isinstance(value, int | float) else value
    if node.type == "integer" and isinstance(value, float):
        return int(value)
    if node.type == "string" and isinstance(value, str):
        return _formatted(value, node.raw.get("format") or "")
    return value


def _map_to_cel(value: dict[str, Any], node: Structural, root: bool) -> dict[str, Any]:
    if isinstance(node.additional, Structural):
        return {name: to_cel(item, node.additional) for name, item in value.items()}
    out: dict[str, Any] = {}
    for name, child in node.properties.items():
        identifier = escaped(name)
        if name in value and identifier is not None:
            out[identifier] = to_cel(value[name], child)
    if node.preserve:
        unknown = {name: item for name, item in value.items() if name not in node.properties}
        if unknown:
            out[_UNKNOWN] = unknown
    if root or node.embedded:
        for name in ("apiVersion", "kind"):
            if name in value:
                out[name] = value[name]
        metadata = value.get("metadata") or {}
        out["metadata"] = {
            name: metadata[name] for name in ("name", "generateName") if name in metadata
        }
    return out


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def _formatted(value: str, named: str) -> object:
    try:
        if named in ("date-time", "datetime"):
            return datetime.fromisoformat(value.replace("Z", "+00:00").replace("z", "+00:00"))
        if named == "date":
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        if named == "duration":
            parts = re.findall(r"([\d.]+)(h|ms|us|µs|ns|m|s)", value)
            seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
            return timedelta(seconds=-seconds if value.startswith("-") else seconds)
        if named == "byte":
            return base64.b64decode(value)
    except ValueError:
        return value
    return value


# --- running -------------------------------------------------------------------------------------


def run_rules(
    value: object, node: Structural, path: str, old: object = ABSENT, *, root: bool = True
) -> Iterator[Cause]:
    """Causes of the rules that do not hold for ``value``.

    Transition rules run where the old value is known; other rules of a part that did not change
    are not reported (ratcheting). Rules of a null value are not run.
    """
    if value is None:
        return
    for raw in node.raw.get(RULES) or ():
        rule = _rule(raw)
        if not rule.transition and old is not ABSENT and equal(value, old):
            continue
        yield from _run(rule, value, node, path, old, root)
    if isinstance(value, list) and node.items is not None:
        partners = partner_items(value, node.raw, old)
        for index, item in enumerate(value):
            here = f"{path}[{index}]"
            yield from run_rules(item, node.items, here, partners[index], root=False)
    elif isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            child = node.child(name)
            if child is not None:
                here = f"{path}.{name}" if path else name
                if path and name not in node.properties:
                    here = f"{path}[{name}]"
                yield from run_rules(item, child, here, before.get(name, ABSENT), root=False)


def _run(
    rule: _Rule, value: object, node: Structural, path: str, old: object, root: bool
) -> Iterator[Cause]:
    known = old is not ABSENT and old is not None
    if rule.transition and not known and not rule.optional_old:
        return
    variables = {"self": to_cel(value, node, root=root)}
    if rule.transition:
        before = to_cel(old, node, root=root) if known else None
        if rule.optional_old:
            held = cel.OptionalValue.of(before) if known else cel.OptionalValue.none()
            variables["oldSelf"] = held
        else:
            variables["oldSelf"] = before
    try:
        holds = _execute(rule.program, variables)
    except RuleError as error:
        detail = f"{error} evaluating rule: {_fixed_message(rule)}"
        yield causes.invalid(path or NOWHERE, kind_of(value), detail)
        return
    if holds is not True:
        yield _broken(rule, value, path, variables)


@lru_cache(maxsize=1)
def _library() -> cel.Context:
    """One context for all rules: registering the functions costs more than most rules.

    Variables stay in it until the next rule sets its own; every rule sets all it refers to.
    """
    return cel.Context(functions=FUNCTIONS)


def _execute(program: cel.Program, variables: dict[str, Any]) -> object:
    try:
        context = _library()
        context.update(variables)
        return program.execute(context)
    except KeyError as error:
        raise RuleError(f"no such key: {error.args[0]}") from error
    except Exception as error:
        text = str(error)
        wrapped = re.search(r"call failed: \w+: (.*?)\. Check function arguments", text, re.DOTALL)
        raise RuleError(wrapped.group(1) if wrapped else text) from error


def _fixed_message(rule: _Rule) -> str:
    message = (rule.raw.get("message") or "").strip()
    return message or f"failed rule: {rule.raw['rule'].strip()}"


def _message(rule: _Rule, variables: dict[str, Any]) -> str:
    expression = rule.raw.get("messageExpression")
    if expression:
        try:
            text = _execute(_compiled(expression), variables)
        except RuleError:
            return _fixed_message(rule)
        if isinstance(text, str) and text.strip() and "\n" not in text.strip():
            return text.strip()
    return _fixed_message(rule)


def _broken(rule: _Rule, value: object, path: str, variables: dict[str, Any]) -> Cause:
    message = _message(rule, variables)
    where = path + _suffix(rule.raw.get("fieldPath") or "", path) or NOWHERE
    reason = rule.raw.get("reason") or "FieldValueInvalid"
    if reason == "FieldValueRequired":
        return causes.required(where, message)
    if reason == "FieldValueForbidden":
        return causes.forbidden(where, message)
    if reason == "FieldValueDuplicate":
        return Cause(where, reason, "Duplicate value")
    if isinstance(value, dict | list):
        return Cause(where, reason, f"Invalid value: {message}")
    return causes.invalid(where, value, message)


def _suffix(field: str, path: str) -> str:
    text = re.sub(r"\['([^']*)'\]", r".\1", field)
    return text if path else text.removeprefix(".")


# --- checking a schema ---------------------------------------------------------------------------

_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


def check_rules(schema: dict[str, Any], path: str = "openAPIV3Schema") -> list[Cause]:
    """Why the rules of a CRD's schema cannot be taken; ``path`` is where the schema lies."""
    return list(_check(Structural(schema), path, root=True))


def _check(node: Structural, path: str, *, root: bool) -> Iterator[Cause]:
    for index, raw in enumerate(node.raw.get(RULES) or ()):
        yield from _check_rule(raw, node, f"{path}.{RULES}[{index}]", root)
    for name, child in node.properties.items():
        yield from _check(child, f"{path}.properties[{name}]", root=False)
    if node.items is not None:
        yield from _check(node.items, f"{path}.items", root=False)
    if isinstance(node.additional, Structural):
        yield from _check(node.additional, f"{path}.additionalProperties", root=False)


def _check_rule(raw: dict[str, Any], node: Structural, path: str, root: bool) -> Iterator[Cause]:
    rule = (raw.get("rule") or "").strip()
    if not rule:
        yield causes.required(f"{path}.rule", "rule is not specified")
        return
    message = raw.get("message") or ""
    if "\n" in message.strip():
        yield causes.invalid(f"{path}.message", message, "must not contain line breaks")
    if raw.get("reason") not in (None, *_REASONS):
        yield causes.not_supported(f"{path}.reason", raw["reason"], _REASONS)
    for member in ("rule", "messageExpression"):
        expression = raw.get(member)
        problem = expression and _expression_problem(expression, node, root)
        if problem:
            yield causes.invalid(f"{path}.{member}", _as_struct(raw), problem)
    if raw.get("fieldPath") and not _leads(node, raw["fieldPath"]):
        yield causes.invalid(f"{path}.fieldPath", raw["fieldPath"], "must be a valid path")


def _as_struct(raw: dict[str, Any]) -> causes.Verbatim:
    shown = {
        "Rule": raw.get("rule", ""),
        "Message": raw.get("message", ""),
        "MessageExpression": raw.get("messageExpression", ""),
        "Reason": raw.get("reason"),
        "FieldPath": raw.get("fieldPath", ""),
        "OptionalOldSelf": raw.get("optionalOldSelf"),
    }
    return causes.Verbatim(shown)


def _expression_problem(expression: str, node: Structural, root: bool) -> str | None:
    try:
        program = _compiled(expression)
    except RuleError as error:
        return str(error)
    undeclared = _undeclared(expression, program)
    if undeclared:
        return _marked(expression, undeclared[1], f"undeclared reference to '{undeclared[0]}'")
    return _undefined_field(expression, node, root)


_NAMES = frozenset(
    [
        "self",
        "oldSelf",
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "bytes",
        "list",
        "map",
        "null_type",
        "type",
        "google",
        "optional",
        "sets",
        "strings",
        "ip",
        "math",
    ]
)
_BINDING = re.compile(r"\.(?:all|exists|exists_one|existsOne|map|filter)\(\s*([A-Za-z_]\w*)\s*,")


def _undeclared(expression: str, program: cel.Program) -> tuple[str, int] | None:
    bound = set(_BINDING.findall(expression))
    for name in program.variables():
        if name not in _NAMES and name not in bound:
            match = re.search(rf"\b{re.escape(name)}\b", expression)
            return name, (match.start() if match else 0)
    return None


def _marked(expression: str, place: int, problem: str) -> str:
    where = " (in container '')" if problem.startswith("undeclared") else ""
    return (
        f"compilation failed: ERROR: <input>:1:{place + 1}: {problem}{where}\n"
        f" | {expression}\n | {'.' * place}^"
    )


_CEL_TYPES = {"string": "string", "boolean": "bool", "integer": "int", "number": "double"}
_CHAIN = re.compile(
    rf"{_STRING}|(?<![\w.])(?:self|oldSelf)((?:\.[A-Za-z_]\w*(?!\w*\s*\())+)", re.DOTALL
)


def _undefined_field(expression: str, node: Structural, root: bool) -> str | None:
    """Return a plain path from ``self`` that the schema does not have."""
    if "optionalOldSelf" in node.raw:
        return None
    for match in _CHAIN.finditer(expression):
        chain = match.group(1)
        if chain is None:
            continue
        place, current, top = match.start(1), node, root
        for name in chain[1:].split("."):
            known = {escaped(each): child for each, child in current.properties.items()}
            if (top or current.embedded) and name in ("apiVersion", "kind", "metadata"):
                break
            tested = expression[: match.start()].rstrip().endswith("has(")
            mark = match.start() - 1 if tested else place
            if current.type in ("string", "boolean", "integer", "number"):
                if current.raw.get("format"):
                    break
                problem = f"type '{_CEL_TYPES[current.type]}' does not support field selection"
                return _marked(expression, mark, problem)
            if current.type != "object" or isinstance(current.additional, Structural):
                break
            if name not in known:
                return _marked(expression, mark, f"undefined field '{name}'")
            place, current, top = place + len(name) + 1, known[name], False
    return None


def _leads(node: Structural, field: str) -> bool:
    parts = re.findall(r"\.([A-Za-z_][\w-]*)|\['([^']*)'\]", field)
    if not parts or "".join(f".{a}" if a else f"['{b}']" for a, b in parts) != field:
        return False
    current: Structural | None = node
    for dotted, quoted in parts:
        current = current.child(dotted or quoted) if current is not None else None
    return current is not None
