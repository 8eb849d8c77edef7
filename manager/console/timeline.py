"""The timeline of an object: its conditions, runs and steps as its status has them, and what this process saw. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apis.health import Health
from ctrlruntime.cache.entry import Entry
from manager.console.journal import Happening

MOST: Final = 30
"""Lines of a timeline."""
LONGEST: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happened to an object."""

    at: str
    source: str
    """Where it is from: Object, Condition, Step, Run, Change or Event."""
    what: str
    text: str = ""
    health: Health | None = None
    """What it means, where that is known."""
    count: int = 1


def timeline_of(entry: Entry, seen: Iterable[Happening]) -> list[Moment]:
    """Return what happened to an object, the latest first."""
    found = [*_of_object(entry), *_of_status(entry.field("status") or {}), *map(moment_of, seen)]
    return sorted((each for each in found if each.at), key=lambda each: each.at, reverse=True)[
        :MOST
    ]


def moment_of(happening: Happening) -> Moment:
    """Return the line of what this process saw."""
    return Moment(
        at=happening.at,
        source="Event" if happening.is_event else "Change",
        what=happening.what,
        text=happening.text,
        health=happening.health,
        count=happening.count,
    )


def _of_object(entry: Entry) -> Iterator[Moment]:
    yield Moment(at=entry.creation_timestamp, source="Object", what="Created")
    if entry.deletion_timestamp:
        text = f"held by {', '.join(entry.finalizers)}" if entry.finalizers else ""
        yield Moment(at=entry.deletion_timestamp, source="Object", what="Deletion began", text=text)


def _of_status(status: Mapping[str, Any]) -> Iterator[Moment]:
    for item in status.get("conditions") or ():
        what = f"{item.get('type', '')} is {item.get('status', '')}: {item.get('reason', '')}"
        yield _moment(item, "Condition", what, "lastTransitionTime")
    for item in status.get("taskConditions") or ():
        yield _moment(item, "Step", str(item.get("type", "")), "lastTransitionTime")
    run = status.get("run") or {}
    for item in (run, *(status.get("history") or ())):
        name = str(item.get("runID", ""))
        yield _moment(item, "Run", f"{name} began", "startedAt", "createdAt")
        ended = str(item.get("outcome") or "ended")
        yield _moment(item, "Run", f"{name}: {ended}", "finishedAt")


def _moment(item: Mapping[str, Any], source: str, what: str, *times: str) -> Moment:
    at = next((str(item[key]) for key in times if item.get(key)), "")
    return Moment(at=at, source=source, what=what, text=str(item.get("message") or "")[:LONGEST])
