"""The record of a change on a Tenant: as the text of its annotation, and back."""

from __future__ import annotations

import json
from datetime import datetime

from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.cache.entry import Entry
from ctrlruntime.intake import DOCUMENT, read_json
from ctrlruntime.rollout import Change, change_record, read_change


def format_change(change: Change) -> str:
    """Return the value of the annotation CHANGE."""
    return json.dumps(change_record(change), separators=(",", ":"))


def parse_change(text: str) -> Change | None:
    """Return the change that `format_change` wrote; None for anything else."""
    try:
        return read_change(read_json(text, DOCUMENT))
    except ValueError:
        return None


def ready_changed_at(entry: Entry) -> datetime | None:
    """Return when the status of a Tenant's condition Ready changed last.

    None while the condition is not of the present generation: then that moment is not known.
    """
    status = entry.field("status") or {}
    for condition in status.get("conditions") or ():
        if (
            condition.get("type") == "Ready"
            and condition.get("observedGeneration") == entry.generation
        ):
            return time_or_none(condition.get("lastTransitionTime"))
    return None
