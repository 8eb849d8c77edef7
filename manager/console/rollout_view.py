"""Rollouts as rows and pages: TenantTemplates with a rollout, and FleetRollouts. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from apis.cloud import FleetRollout
from apis.health import phase_health
from apis.tenancy import TenantTemplate
from ctrlruntime.cache.entry import Entry
from manager.console.estimate import Estimates, in_words

ROLLOUTS: Final = ("TenantTemplate", "FleetRollout")
"""Kinds that have rollouts."""
P = ParamSpec("P")
T = TypeVar("T")
MOVING: Final = frozenset({"Progressing", "RollingBack"})
COUNTS: Final = ("total", "updated", "changing", "failed", "waiting", "rolledBack", "kept")


def _or_none(read: Callable[P, T | None]) -> Callable[P, T | None]:
    """Return a function that returns None for a status of other types; the object's row reports it as unreadable."""

    @wraps(read)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return read(*args, **kwargs)
        except (AttributeError, TypeError, ValueError):
            return None

    return guarded


@_or_none
def progress_of(entry: Entry) -> tuple[str, int, int] | None:
    """Return target, members updated and all members of a rollout; None for a template without one."""
    status = entry.field("status") or {}
    if entry.kind == "TenantTemplate":
        status = status.get("rollout")
        if not status:
            return None
    target = str(status.get("targetVersion") or status.get("targetRevision") or "")
    return target, int(status.get("updated", 0)), int(status.get("total", 0))


def waves_of(entry: Entry) -> list[dict[str, Any]]:
    """Return the waves of a rollout as its status has them."""
    status = entry.field("status") or {}
    if entry.kind == "TenantTemplate":
        status = status.get("rollout") or {}
    return list(status.get("waves") or [])


def rollout_key(entry: Entry) -> str:
    """Return the key of a rollout among all."""
    return f"{entry.kind}/{entry.namespace}/{entry.name}"


@_or_none
def rollout_row(entry: Entry, estimates: Estimates, now: float) -> dict[str, Any] | None:
    """Return a rollout; None for a template that has none."""
    status = entry.field("status") or {}
    if entry.kind == "TenantTemplate":
        status = status.get("rollout")
        if not status:
            return None
    phase = str(status.get("phase", "Pending"))
    seconds = estimates.remaining(rollout_key(entry), now) if phase in MOVING else None
    return {
        "kind": entry.kind,
        "plural": _plural(entry.kind),
        "namespace": entry.namespace,
        "name": entry.name,
        "phase": phase,
        "health": phase_health(entry.kind, phase),
        "target": str(status.get("targetVersion") or status.get("targetRevision") or ""),
        "wave": str(status.get("wave", "")),
        "message": str(status.get("message", "")),
        "reason": str(status.get("waitingReason", "")),
        "until": str(status.get("waitingUntil") or ""),
        "estimate": in_words(seconds) if phase in MOVING else "",
        **{name: int(status.get(name, 0)) for name in COUNTS},
        "waves": status.get("waves") or [],
    }


def strategy_of(entry: Entry) -> dict[str, str]:
    """Return the steps of a rollout as its spec has them, in words."""
    spec = entry.field("spec") or {}
    if entry.kind == "TenantTemplate":
        return _scalars(spec.get("rollout") or {})
    return _scalars(spec)


def planned_waves(entry: Entry, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the waves of a FleetRollout: what the spec plans, beside how far each has come."""
    done = {str(wave.get("name")): wave for wave in row["waves"]}
    by = _approvers(entry)
    planned = {
        str(wave.get("name")): wave for wave in (entry.field("spec") or {}).get("waves") or []
    }
    return [
        {
            "name": name,
            "current": name == row["wave"],
            "approval": str(planned.get(name, {}).get("approval", "Automatic")) + by.get(name, ""),
            "soak": int(planned.get(name, {}).get("soakSeconds", 0)),
            **{
                key: int(done.get(name, {}).get(key, 0))
                for key in ("instances", "updated", "ready")
            },
        }
        for name in dict.fromkeys([*planned, *done])
    ]


def _approvers(entry: Entry) -> dict[str, str]:
    """Return by wave who approved what is shown of it now, in words."""
    status = entry.field("status") or {}
    shown = str(status.get("approvalDigest", ""))
    given = (status.get("approvals") or {}).get("given") or ()
    found = [
        (*str(each.get("value", "")).rpartition("="), str(each.get("by", ""))) for each in given
    ]
    return {name: f", by {by}" for name, _, digest, by in found if name and digest == shown}


def _plural(kind: str) -> str:
    found: dict[str, type[TenantTemplate | FleetRollout]] = {
        "TenantTemplate": TenantTemplate,
        "FleetRollout": FleetRollout,
    }
    return found[kind].mapping().plural


def _scalars(spec: dict[str, Any]) -> dict[str, str]:
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in spec.items()
        if isinstance(value, str | int | bool) and value not in ("", False)
    }
