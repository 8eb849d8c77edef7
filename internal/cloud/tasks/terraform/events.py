"""What Terraform and OpenTofu report with -json: events, what a plan changes, and outputs. Pure.

https://developer.hashicorp.com/terraform/internals/machine-readable-ui
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Numbers of resources."""

    add: int = 0
    change: int = 0
    destroy: int = 0

    @property
    def empty(self) -> bool:
        """Whether no resource changes. Outputs may."""
        return not (self.add or self.change or self.destroy)

    def planned(self) -> str:
        """Before: `2 to add, 1 to change, 0 to destroy`."""
        return f"{self.add} to add, {self.change} to change, {self.destroy} to destroy"

    def done(self) -> str:
        """Afterwards: `2 added, 1 changed, 0 destroyed`."""
        return f"{self.add} added, {self.change} changed, {self.destroy} destroyed"


def event_of(line: str | bytes) -> Event | None:
    """Return the event of a line; None for a line that is none."""
    if line.strip()[:1] not in ("{", b"{"):
        return None
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return event if isinstance(event, dict) and "@message" in event else None


def error_of(event: Event) -> str:
    """Return what an event complains of; empty if it does not."""
    diagnostic = event.get("diagnostic") or {}
    if diagnostic.get("severity") != "error":
        return ""
    return ": ".join(filter(None, (diagnostic.get("summary"), diagnostic.get("detail"))))


def summary_of(event: Event) -> Summary | None:
    """Return the numbers of a `change_summary`."""
    if event.get("type") != "change_summary":
        return None
    changes = event.get("changes") or {}
    return Summary(
        add=changes.get("add", 0), change=changes.get("change", 0), destroy=changes.get("remove", 0)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output of the root module."""

    name: str
    value: Any = field(repr=False)
    """JSON; None for an output that is null."""
    sensitive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """All outputs: a text stays as it is, everything else becomes JSON."""

    plain: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)


def split(found: Iterable[Output], wanted: frozenset[str], sensitive: frozenset[str]) -> Outputs:
    """Of the outputs found those that are wanted. One that either side calls sensitive is."""
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for output in found:
        if output.name in wanted and output.value is not None:
            into = secret if output.sensitive or output.name in sensitive else plain
            into[output.name] = _text(output.value)
    return Outputs(plain=dict(sorted(plain.items())), secret=dict(sorted(secret.items())))


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
