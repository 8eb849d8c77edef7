"""What was seen of the last change that a rollout made of a tenant, and what follows from it for the rollout. Pure.

A rollout judges what it changed: health that a tenant loses for another cause is no failure of the content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from apis.tenancy import ChangeProgress, TenantStatus
from ctrlruntime.api.conditions import is_condition_true
from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.annotations import is_paused
from ctrlruntime.lifecycle.status import PAUSED_CONDITION
from ctrlruntime.rollout import Change, Readiness
from internal.tenancy.shared.labels import CHANGE
from internal.tenancy.sync.rollout_changes import parse_change


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether a tenant that is not ready is so for its last change, and why it is not ready."""

    was_ready: bool = False
    excused: bool = False
    held: bool = False
    """Whether the change is not carried out yet: paused, or not seen by the tenant's controller."""
    resumed_at: datetime | None = None
    causes: frozenset[str] = frozenset()


def record_progress(
    before: TenantStatus, after: TenantStatus, entry: Entry, now: datetime, *, unavailable: bool
) -> None:
    """Record in a status to be written what is seen of the last change: when first, and the first generation ready in it.

    `unavailable`: all that failed did so because a server did not answer as it should.
    """
    change = parse_change(entry.annotations.get(CHANGE, ""))
    if change is None:
        after.rollout_change = None
        return
    known = before.rollout_change
    if known is None or known.at != change.at:
        known = ChangeProgress(at=change.at, seen_at=now)
    generation = known.ready_generation
    if not generation and is_condition_true(after.conditions, "Ready"):
        generation = entry.generation
    after.rollout_change = known.model_copy(
        update={"ready_generation": generation, "unavailable": unavailable}
    )


def judge(entry: Entry, change: Change | None) -> Judgement:
    """Return what follows from a tenant's status for its last change; nothing of a status that cannot be read."""
    status: Mapping[str, Any] = entry.field("status") or {}
    causes = _causes(entry, status)
    if change is None:
        return Judgement(causes=causes)
    try:
        known = ChangeProgress.model_validate(status.get("rolloutChange") or {"at": None})
    except ValidationError:
        known = None
    if known is None or known.at != change.at:
        return Judgement(held=True, causes=causes)
    current = status.get("observedGeneration") == entry.generation
    first = known.ready_generation
    readiness = Readiness(first=str(first or ""), now=str(entry.generation))
    return Judgement(
        was_ready=first != 0,
        excused=known.unavailable or readiness.excuses(failed=True),
        held=is_paused(entry.annotations) or not current,
        resumed_at=max(filter(None, (known.seen_at, _resumed(status))), default=None),
        causes=causes,
    )


def _resumed(status: Mapping[str, Any]) -> datetime | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == PAUSED_CONDITION:
            return time_or_none(condition.get("lastTransitionTime"))
    return None


def _causes(entry: Entry, status: Mapping[str, Any]) -> frozenset[str]:
    """Return what is not ready and why, without the names of the tenant; else why nothing can be applied."""
    spec: Mapping[str, Any] = entry.field("spec") or {}
    found = {
        f"{item.get('id')}: {item.get('message', '')}"
        for item in status.get("resources") or ()
        if item.get("phase") in {"Failed", "Degraded", "Progressing"}
    }
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and not found:
            found.add(f"{condition.get('reason')}: {condition.get('message')}")
    own = sorted({entry.name, str(spec.get("uid", ""))} - {""}, key=len, reverse=True)
    names = re.compile(rf"(?<![a-zA-Z0-9])({'|'.join(map(re.escape, own))})(?![a-zA-Z0-9])")
    return frozenset(names.sub("…", text) for text in found)
