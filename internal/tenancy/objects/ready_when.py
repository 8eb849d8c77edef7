"""What a template demands of a resource beyond its kind's own readiness: `readyWhen`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from apis.tenancy import ReadyCheck
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources.readiness import EXISTENCE, READY, Readiness, not_ready
from internal.tenancy.objects.path_errors import ReadyWhenError

MOST_MATCHES: Final = 100
"""Values that one path may select; more of them are not ready."""
SHOWN: Final = 80
"""Characters of an expression that a message quotes."""


def check_ready_when(checks: Sequence[ReadyCheck], gvk: GroupVersionKind) -> list[str]:
    """Return what is wrong with the checks of a resource of a kind, one sentence each."""
    if not checks:
        return []
    if gvk.group_kind in EXISTENCE:
        return [_unread(gvk)]
    return [problem for check in checks if (problem := _problem(check))]


def _problem(check: ReadyCheck) -> str:
    """Return what is wrong with a check, empty if nothing."""
    if check.cel is not None and check.json_path is None and check.value is None:
        return _uncompiled(check.cel)
    if check.json_path is None or check.cel is not None:
        return "readyWhen: an entry has jsonPath, with or without value, or else cel alone"
    from internal.tenancy.objects.json_paths import compiled_check  # few templates have such paths

    try:
        compiled_check(check.json_path)
    except ReadyWhenError as error:
        return str(error)
    return ""


def _uncompiled(expression: str) -> str:
    from internal.tenancy.cel import CelError, compile_expression

    try:
        compile_expression(expression)
    except CelError as error:
        return f"readyWhen: cel {expression[:SHOWN]!r}: {error}"
    return ""


def narrow(readiness: Readiness, checks: Sequence[ReadyCheck], entry: Entry) -> Readiness:
    """Return the readiness of an object with the checks applied to it: they never improve it.

    A check that cannot be evaluated is not ready, with the reason.
    """
    if readiness != READY or not checks:
        return readiness
    if entry.gvk.group_kind in EXISTENCE:
        return not_ready(_unread(entry.gvk))
    manifest = entry.decode()
    for check in checks:
        if reason := _unmet(check, manifest):
            return not_ready(reason)
    return readiness


def _unmet(check: ReadyCheck, manifest: Mapping[str, Any]) -> str:
    """Return why the check does not hold, empty if it does."""
    if problem := _problem(check):
        return problem
    if check.cel is not None:
        return _untrue(check.cel, manifest)
    return _unselected(check.json_path or "", check.value, manifest)


def _untrue(expression: str, manifest: Mapping[str, Any]) -> str:
    from internal.tenancy.cel import CelError, compile_expression, evaluate

    try:
        found = evaluate(compile_expression(expression), {"self": manifest})
    except CelError as error:
        return f"readyWhen: cel {expression[:SHOWN]!r} cannot be evaluated: {error}"
    if found is True:
        return ""
    what = "false" if found is False else "neither true nor false"
    return f"readyWhen: cel {expression[:SHOWN]!r} is {what}"


def _unselected(path: str, expected: str | None, manifest: Mapping[str, Any]) -> str:
    from internal.tenancy.objects.json_paths import JSONPathError, compiled_check

    try:
        found = compiled_check(path).finditer(manifest)
        values = [match.obj for match in islice(found, MOST_MATCHES + 1)]
    except (JSONPathError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        return f"readyWhen: {path} cannot be evaluated: {error}"
    if len(values) > MOST_MATCHES:
        return f"readyWhen: {path} selects more than {MOST_MATCHES} values"
    if all(value is None for value in values):
        return f"readyWhen: {path} selects no value"
    if expected is None or all(_text(value) == expected for value in values):
        return ""
    return f"readyWhen: {path} is not {expected!r}"


def _text(value: object) -> str | None:
    """Return how a value is compared; None for an object, a list or null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _unread(gvk: GroupVersionKind) -> str:
    return f"readyWhen: of a {gvk.kind} only the metadata is watched; it is ready once it exists"


def as_object(entry: Entry) -> Mapping[str, Any]:
    """Return the parts of an object that readiness looks at."""
    return {
        "apiVersion": entry.api_version,
        "kind": entry.kind,
        "metadata": {
            "generation": entry.generation,
            "deletionTimestamp": entry.deletion_timestamp,
        },
        "spec": entry.field("spec") or {},
        "status": entry.field("status") or {},
    }
