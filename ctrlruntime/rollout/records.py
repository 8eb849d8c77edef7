"""Changes as JSON data, for an annotation of the member that was changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ctrlruntime.rollout.members import Change, ChangeKind


def change_record(change: Change) -> dict[str, Any]:
    """Return a change as JSON data."""
    record: dict[str, Any] = {
        "kind": change.kind.value,
        "at": change.at.isoformat(),
        "previous": change.previous,
        "fix": change.is_fix,
    }
    if change.refused:
        record["refused"] = change.refused
    if change.is_irreversible:
        record["irreversible"] = True
    return record


def read_change(record: Mapping[str, Any]) -> Change | None:
    """Return the change that `change_record` returned as JSON data; None for anything else."""
    try:
        at = datetime.fromisoformat(record["at"])
        change = Change(
            ChangeKind(record["kind"]),
            at,
            str(record["previous"]),
            refused=str(record.get("refused", "")),
            is_irreversible=record.get("irreversible") is True,
            is_fix=record["fix"] is True,
        )
    except (AttributeError, ValueError, KeyError, TypeError):
        return None
    return None if at.tzinfo is None else change
