"""One object as the console counts and lists it. Pure: no specs, no outputs, nothing of a Secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from apis.cloud import GROUP as CLOUD
from apis.tenancy import GROUP as TENANCY
from ctrlruntime.cache.entry import Entry
from manager.commands.summaries import Summary, summary_of, unreadable

TEMPLATE: Final = f"{TENANCY}/template"
LONGEST: Final = 300
"""Characters of a message in a list; an object's own page has all of it, as the page of what is held."""
_HOLDING: Final = {"DeletionsHeld": "True", "RemovalPending": "True", "RowsValid": "False"}
"""Conditions that hold something back, and the status in which they do."""
ENDED: Final = frozenset({"", "Done", "Pending"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The run of a task as a list shows it."""

    id: str
    state: str
    attempt: int
    operation: str
    outcome: str
    started: str
    message: str
    retry_at: str

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self.state not in ENDED and not self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An object: where it stands, what it is grouped by, and what holds it."""

    summary: Summary
    created: str = ""
    group: str = ""
    """The template of a tenant, the rollout of an instance."""
    deleting_since: str = ""
    finalizers: tuple[str, ...] = ()
    holds: tuple[tuple[str, str], ...] = ()
    """What is held back: reason and message."""
    run: Run | None = None
    waiting: str = ""
    """What a task waits for."""

    @property
    def is_held(self) -> bool:
        """Whether a removal of it, or that it wants, waits."""
        return bool(self.holds or self.deleting_since)


def row_of(entry: Entry) -> Row:
    """Return the row of an object of the product; of a status with other types than the kind's, one that reports that."""
    try:
        return _row(entry)
    except (AttributeError, TypeError, ValueError, OverflowError):
        summary = unreadable(entry.kind, entry.namespace, entry.name)
        return Row(summary=summary, created=entry.creation_timestamp)


def _row(entry: Entry) -> Row:
    status: Mapping[str, Any] = entry.field("status") or {}
    metadata = {
        "name": entry.name,
        "namespace": entry.namespace,
        "generation": entry.generation,
        "deletionTimestamp": entry.deletion_timestamp,
    }
    summary = summary_of({"kind": entry.kind, "metadata": metadata, "status": status})
    return Row(
        summary=_shortened(summary),
        created=entry.creation_timestamp,
        group=_group(entry, status),
        deleting_since=entry.deletion_timestamp or "",
        finalizers=entry.finalizers if entry.deletion_timestamp else (),
        holds=tuple(_holds(status)),
        run=_run(status.get("run")) if entry.api_version.startswith(CLOUD) else None,
        waiting=_waiting(status),
    )


def _shortened(summary: Summary) -> Summary:
    if len(summary.message) <= LONGEST:
        return summary
    return replace(summary, message=f"{summary.message[: LONGEST - 1]}…")


def _group(entry: Entry, status: Mapping[str, Any]) -> str:
    if entry.kind == "Tenant":
        return entry.labels.get(TEMPLATE, "")
    return str((status.get("assignedVersion") or {}).get("rollout", ""))


def _holds(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    holds = [
        (str(item.get("reason", "")), str(item.get("message", "")))
        for item in status.get("conditions") or ()
        if _HOLDING.get(item.get("type", "")) == item.get("status", "")
    ]
    unmanaged = int(status.get("unmanaged") or status.get("unmanagedTenants") or 0)
    if unmanaged:
        holds.append(("Orphans", f"{unmanaged} tenants name it and were not made by its registry"))
    return holds + [
        (
            str(item.get("reason", "")),
            f"{item.get('resource', '')}: {item.get('message', '')}"[:LONGEST],
        )
        for item in (status.get("pendingRemovals") or [])[:3]
    ]


def _run(run: Mapping[str, Any] | None) -> Run | None:
    if not run:
        return None
    return Run(
        id=str(run.get("runID", "")),
        state=str(run.get("state", "")),
        attempt=int(run.get("attempt", 1)),
        operation=str(run.get("operation", "")),
        outcome=str(run.get("outcome") or ""),
        started=str(run.get("startedAt") or run.get("createdAt") or ""),
        message=str(run.get("message", ""))[:LONGEST],
        retry_at=str(run.get("retryAt") or ""),
    )


def _waiting(status: Mapping[str, Any]) -> str:
    waiting = status.get("waiting")
    if not isinstance(waiting, Mapping):
        return ""
    holder = f" ({waiting['holder']})" if waiting.get("holder") else ""
    return f"{waiting.get('reason', '')}{holder}"
