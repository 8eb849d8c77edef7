"""Lines that Terraform and OpenTofu print with -json. Pure.

https://developer.hashicorp.com/terraform/internals/machine-readable-ui
"""

from collections.abc import Mapping
from typing import Any

import orjson

from internal.cloud.tasks.terraform.summary import Summary

Event = Mapping[str, Any]


def event_of(line: str | bytes) -> Event | None:
    """The event of a line; None for a line that is none."""
    if line.strip()[:1] not in ("{", b"{"):
        return None
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return event if isinstance(event, dict) and "@message" in event else None


def error_of(event: Event) -> str:
    """What an event complains of; empty if it does not."""
    diagnostic = event.get("diagnostic") or {}
    if diagnostic.get("severity") != "error":
        return ""
    return ": ".join(filter(None, (diagnostic.get("summary"), diagnostic.get("detail"))))


def summary_of(event: Event) -> Summary | None:
    """The numbers of a `change_summary`."""
    if event.get("type") != "change_summary":
        return None
    changes = event.get("changes") or {}
    return Summary(
        add=changes.get("add", 0), change=changes.get("change", 0), destroy=changes.get("remove", 0)
    )
