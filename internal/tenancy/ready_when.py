"""What a template demands of a resource beyond its kind's own readiness: `readyWhen`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from apis.tenancy import ReadyCheck
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources.readiness import EXISTENCE, READY, Readiness, not_ready

MOST_MATCHES: Final = 100
"""Values that one path may select; more of them are not ready."""


def check_ready_when(checks: Sequence[ReadyCheck], gvk: GroupVersionKind) -> list[str]:
    """Return what is wrong with the checks of a resource of a kind, one sentence each."""
    if not checks:
        return []
    if gvk.group_kind in EXISTENCE:
        return [_unread(gvk)]
    from internal.tenancy.json_paths import ReadyWhenError, compiled_check

    problems: list[str] = []
    for check in checks:
        try:
            compiled_check(check.json_path)
        except ReadyWhenError as error:
            problems.append(str(error))
    return problems


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
    from internal.tenancy.json_paths import JSONPathError, ReadyWhenError, compiled_check

    path = check.json_path
    try:
        found = compiled_check(path).finditer(manifest)
        values = [match.obj for match in islice(found, MOST_MATCHES + 1)]
    except ReadyWhenError as error:
        return str(error)
    except (JSONPathError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        return f"readyWhen: {path} cannot be evaluated: {error}"
    if len(values) > MOST_MATCHES:
        return f"readyWhen: {path} selects more than {MOST_MATCHES} values"
    if all(value is None for value in values):
        return f"readyWhen: {path} selects no value"
    if check.value is None:
        return ""
    if all(_text(value) == check.value for value in values):
        return ""
    return f"readyWhen: {path} is not {check.value!r}"


def _text(value: object) -> str | None:
    """Return how a value is compared; None for an object, a list or null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _unread(gvk: GroupVersionKind) -> str:
    return f"readyWhen: of a {gvk.kind} only the metadata is watched; it is ready once it exists"
