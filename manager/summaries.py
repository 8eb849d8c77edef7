"""Objects as rows for people: state, age of it, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

NOT_OBSERVED: Final = "NotObserved"
"""State of an object whose present generation no controller has reported on."""
HELD: Final = "DeletionsHeld"
"""State of a registry that is ready and whose deletions wait for an approval: its condition."""
FAILED: Final = frozenset({"Failed", "Error", "Halted", "Invalid", "Degraded"})
GOOD: Final = frozenset({"Ready", "Complete", "Superseded", "Aborted", "Ok"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One object: where it stands, and why."""

    kind: str
    namespace: str
    name: str
    state: str
    since: str = ""
    message: str = ""
    version: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing has to be done about the object."""
        return self.state in GOOD

    def row(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "state": self.state,
            "version": self.version,
            "since": self.since,
            "message": self.message,
        }


def summary_of(manifest: Mapping[str, Any]) -> Summary:
    """Return where an object of the product stands, by its phase or its condition Ready."""
    metadata, status = manifest.get("metadata") or {}, manifest.get("status") or {}
    conditions: list[Mapping[str, Any]] = status.get("conditions") or []
    ready = next((item for item in conditions if item.get("type") == "Ready"), {})
    state = _state(metadata, status, ready)
    if state in GOOD:
        held = (item for item in conditions if item.get("type") == HELD)
        if (found := next(held, {})).get("status") == "True":
            state, ready = HELD, found
    return Summary(
        kind=str(manifest.get("kind", "")),
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        state=state,
        since=str(ready.get("lastTransitionTime", "")),
        message=str(status.get("message") or ready.get("message") or status.get("status") or ""),
        version=str(status.get("version") or status.get("targetVersion") or ""),
    )


def _state(metadata: Mapping[str, Any], status: Mapping[str, Any], ready: Mapping[str, Any]) -> str:
    if metadata.get("deletionTimestamp"):
        return "Deleting"
    if not status:
        return NOT_OBSERVED
    observed = status.get("observedGeneration")
    if observed is not None and observed != metadata.get("generation", observed):
        return NOT_OBSERVED
    if status.get("phase"):
        return str(status["phase"])
    if ready:
        return "Ready" if ready.get("status") == "True" else str(ready.get("reason") or "NotReady")
    return "Ok"


def count_states(summaries: Iterable[Summary]) -> list[dict[str, Any]]:
    """Return how many objects there are of each kind, version and state, bad ones first within a kind."""
    found = Counter((item.kind, item.version, item.state) for item in summaries)
    order = sorted(found, key=lambda key: (key[0], key[2] in GOOD, key[2], key[1]))
    return [
        {"kind": kind, "version": version, "state": state, "count": found[kind, version, state]}
        for kind, version, state in order
    ]


def failing(summaries: Iterable[Summary]) -> list[Summary]:
    """Return what is not good, failures first, what has been so for longest before the others."""
    return sorted((item for item in summaries if not item.is_good), key=failure_order)


def failure_order(item: Summary) -> tuple[bool, str, str, str, str]:
    """Return the place of an object among those that are not good."""
    return (item.state not in FAILED, item.since or "9", item.kind, item.namespace, item.name)
