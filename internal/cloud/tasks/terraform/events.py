"""What Terraform and OpenTofu report with -json, and what a plan changes. Pure.

https://developer.hashicorp.com/terraform/internals/machine-readable-ui
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson


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


Event = Mapping[str, Any]


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
