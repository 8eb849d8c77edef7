"""matchConditions of webhooks: CEL over the admission request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctrlruntime.envtest.schema.evaluator import cel


class ConditionError(Exception):
    """A condition that cannot be evaluated."""


def conditions_hold(hook: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether all conditions are true. A false one wins over one that fails, as upstream.

    Raises ConditionError.
    """
    failed = ""
    for condition in hook.get("matchConditions") or ():
        variables = {
            "request": request,
            "object": request.get("object"),
            "oldObject": request.get("oldObject"),
        }
        try:
            result = cel.evaluate(condition["expression"], variables)
        except (ValueError, RuntimeError, TypeError, KeyError) as error:
            failed = failed or f"match condition {condition.get('name')!r} failed: {error}"
            continue
        if result is False:
            return False
    if failed:
        raise ConditionError(failed)
    return True
