"""The record of a change on a Tenant: as the text of its annotation, and back."""

from __future__ import annotations

import json
from datetime import datetime

from ctrlruntime.cache.entry import Entry
from ctrlruntime.rollout import Change, ChangeKind


def format_change(change: Change) -> str:
    """Return the value of the annotation CHANGE."""
    record = {
        "kind": change.kind.value,
        "at": change.at.isoformat(),
        "previous": change.previous,
        "fix": change.is_fix,
    }
    if change.refused:
        record["refused"] = change.refused
    if change.is_irreversible:
        record["irreversible"] = True
    return json.dumps(record, separators=(",", ":"))


def parse_change(text: str) -> Change | None:
    """Return the change that `format_change` wrote; None for anything else."""
    try:
        record = json.loads(text)
        at = datetime.fromisoformat(record["at"])
        kind = ChangeKind(record["kind"])
        change = Change(
            kind,
            at,
            str(record["previous"]),
            refused=str(record.get("refused", "")),
            is_irreversible=record.get("irreversible") is True,
            is_fix=record["fix"] is True,
        )
    except (ValueError, KeyError, TypeError):
        return None
    return None if at.tzinfo is None else change


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
            try:
                return datetime.fromisoformat(condition.get("lastTransitionTime", ""))
            except ValueError:
                return None
    return None
