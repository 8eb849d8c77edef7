"""The model of a run's page: steps, attempts, where the log is. Pure: outputs are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

FIELDS: Final = (
    *("runID", "state", "outcome", "operation", "attempt", "message", "logs", "createdAt"),
    *("startedAt", "finishedAt", "deadline", "interruptAt", "retryAt", "inputsVersion"),
)
"""What of a run is shown."""
_COUNTS: Final = ("add", "change", "destroy", "replace")
PLAN_FIELDS: Final = ("digest", *_COUNTS, "link", "since", "checkedAt")
"""What of a plan that waits is shown, besides the addresses."""
_FAILURE: Final = re.compile(r"\b(error|fatal|panic|failed|failure|exception)\b", re.IGNORECASE)
"""What a line of a log has that reports a failure."""
STEPS: Final = ("Pending", "Creating", "Created", "Started", "Done")


def run_fields(run: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what of a run is shown, by name; empty for none."""
    return {name: str(run[name]) for name in FIELDS if run.get(name)} if run else {}


def run_page(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model of the page, from the status of the object whose task runs."""
    run = run_fields(status.get("run"))
    waiting = status.get("waiting") or {}
    return {
        "phase": str(status.get("phase", "")),
        "message": str(status.get("message", "")),
        "run": run,
        "step": STEPS.index(run["state"]) if run.get("state") in STEPS else 0,
        "steps": len(STEPS) - 1,
        "plan": _plan(status.get("plan")),
        "waiting": {key: str(value) for key, value in waiting.items() if value},
        "log": [
            {
                key: str(item.get(key, ""))
                for key in ("lastTransitionTime", "type", "status", "reason", "message", "runID")
            }
            for item in status.get("taskConditions") or []
        ],
        "history": [run_fields(item) for item in status.get("history") or []],
    }


def log_lines(lines: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the lines of a log, each with whether it reports a failure."""
    return [(line, _FAILURE.search(line) is not None) for line in lines]


def _plan(plan: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a plan that waits: its facts, and the addresses of what it destroys or replaces."""
    if not plan:
        return None
    given = {**dict.fromkeys(_COUNTS, 0), **plan}
    facts = {name: str(given[name]) for name in PLAN_FIELDS if given.get(name) is not None}
    return {"facts": facts, "destroys": [str(item) for item in plan.get("destroys") or ()]}
