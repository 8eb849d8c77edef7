"""Objects as rows for people: state, age of it, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apis.health import Health, state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One object: where it stands, and why."""

    kind: str
    namespace: str
    name: str
    state: str
    health: Health
    since: str = ""
    message: str = ""
    version: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing has to be done about the object."""
        return self.health is Health.GOOD

    def row(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "state": self.state,
            "health": self.health.value,
            "version": self.version,
            "since": self.since,
            "message": self.message,
        }


def unreadable(kind: str, namespace: str, name: str) -> Summary:
    """Return the summary of an object whose status has other types than its kind's: its own trouble alone."""
    message = "the status cannot be read: it has other types than the CRD of this version"
    return Summary(
        kind=kind,
        namespace=namespace,
        name=name,
        state="Unreadable",
        health=Health.UNKNOWN,
        message=message,
    )


def summary_of(manifest: Mapping[str, Any]) -> Summary:
    """Return where an object of the product stands, by its phase and its conditions."""
    metadata = manifest.get("metadata") or {}
    try:
        return _summary(metadata, manifest)
    except (AttributeError, TypeError, ValueError):
        named = (manifest.get("kind"), metadata.get("namespace"), metadata.get("name"))
        return unreadable(*(str(each or "") for each in named))


def _summary(metadata: Mapping[str, Any], manifest: Mapping[str, Any]) -> Summary:
    status = manifest.get("status") or {}
    state = state_of(manifest)
    return Summary(
        kind=str(manifest.get("kind", "")),
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        state=state.word,
        health=state.health,
        since=state.since,
        message=state.message,
        version=str(status.get("version") or status.get("targetVersion") or ""),
    )


def count_states(summaries: Iterable[Summary]) -> list[dict[str, Any]]:
    """Return how many objects there are of each kind, version and state, the worst first within a kind."""
    found = Counter((item.kind, item.version, item.health, item.state) for item in summaries)
    order = sorted(found, key=lambda key: (key[0], key[2].rank, key[3], key[1]))
    return [
        {
            "kind": kind,
            "version": version,
            "state": state,
            "health": health.value,
            "count": found[kind, version, health, state],
        }
        for kind, version, health, state in order
    ]


def not_good(summaries: Iterable[Summary]) -> list[Summary]:
    """Return what is not good, failures first, what has been so for longest before the others."""
    return sorted((item for item in summaries if not item.is_good), key=urgency)


def urgency(item: Summary) -> tuple[int, str, str, str, str]:
    """Return the place of an object among those that are not good."""
    return (item.health.rank, item.since or "9", item.kind, item.namespace, item.name)
