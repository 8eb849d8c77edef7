"""Columns, and the cells that many kinds share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.scalars import parse_time

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"
INVALID: Final = "<invalid>"

Cells = list[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those of a priority above 0 are shown by `-o wide` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Printer:
    """How objects of a kind become rows."""

    columns: tuple[Column, ...]
    cells: Callable[[Manifest, datetime], Cells]
    conditions: Callable[[Manifest], list[dict[str, str]]] | None = None
    """Conditions of the row: clients may dim what is done."""


NAME: Final = Column("Name", format="name", description="Name must be unique within a namespace.")
AGE: Final = Column("Age", description="The time since the object was created.")
CREATED: Final = Column("Created At", "date", description="When the object was created.")


def columns(text: str) -> tuple[Column, ...]:
    """Columns from one line: `Name | Ready | Count:integer | IP+` (`+`: wide only)."""
    return tuple(_column(part.strip()) for part in text.split("|"))


def _column(text: str) -> Column:
    wide = text.endswith("+")
    name, _, kind = text.rstrip("+").partition(":")
    if name == "Name":
        return replace(NAME, priority=1) if wide else NAME
    if name == "Age":
        return AGE
    if name == "Created At":
        return CREATED
    return Column(name, kind or "string", priority=1 if wide else 0)


def since(stamp: object, now: datetime) -> str:
    """Return the age of a timestamp as text; `<unknown>` where there is none."""
    if not stamp:
        return UNKNOWN
    try:
        moment = parse_time(str(stamp))
    except ValueError:
        return INVALID
    return human_duration((now - moment).total_seconds())


def age(obj: Manifest, now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def human_duration(seconds: float) -> str:
    """Two units at most, as Kubernetes shortens durations."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    whole = max(whole, 0)
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 24 * 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(first: int, unit: str, second: int, small: str) -> str:
    return f"{first}{unit}{second}{small}" if second else f"{first}{unit}"


def part(obj: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is an object; empty where it is missing."""
    found = obj.get(name)
    return found if isinstance(found, dict) else {}


def items(obj: Mapping[str, Any], name: str) -> list[Any]:
    """Return a member that is a list; empty where it is missing."""
    found = obj.get(name)
    return found if isinstance(found, list) else []


def labels_text(labels: Mapping[str, str] | None) -> str:
    """`a=b,c=d`, or `<none>`."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Return a label selector as text; `<none>` where it selects by nothing."""
    if not selector:
        return NONE
    found = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or ():
        key, operator = rule.get("key", ""), rule.get("operator", "")
        values = ",".join(sorted(rule.get("values") or ()))
        shown = {"Exists": key, "DoesNotExist": f"!{key}"}
        found.append(shown.get(operator, f"{key} {operator.lower()} ({values})"))
    return ",".join(found) or NONE


def containers(spec: Mapping[str, Any]) -> list[str]:
    """Names and images of a Pod template's containers, joined."""
    found = items(spec, "containers")
    names = ",".join(str(each.get("name", "")) for each in found)
    return [names, ",".join(str(each.get("image", "")) for each in found)]


def template(obj: Manifest) -> dict[str, Any]:
    """Return the Pod spec of a workload's template."""
    return part(part(part(obj, "spec"), "template"), "spec")


def joined(values: Iterable[Any], limit: int = 0) -> str:
    """Comma-separated; beyond the limit the number left out."""
    listed = [str(value) for value in values]
    if limit and len(listed) > limit:
        return f"{','.join(listed[:limit])} + {len(listed) - limit} more..."
    return ",".join(listed)


def _created(obj: Manifest, _: datetime) -> Cells:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]


def _plain(obj: Manifest, now: datetime) -> Cells:
    return [obj["metadata"]["name"], age(obj, now)]


CREATED_AT: Final = Printer(columns("Name | Created At"), _created)
NAME_AND_AGE: Final = Printer(columns("Name | Age"), _plain)
"""Of kinds that few look at."""
