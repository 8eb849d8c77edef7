"""Statuses as merge patches that hold the difference and nothing else. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ctrlruntime.envtest.nodes.kinds import Manifest


def timestamp(now: datetime) -> str:
    """RFC 3339 in whole seconds, as the API server writes it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text)


def difference(current: Mapping[str, Any], desired: Mapping[str, Any]) -> Manifest:
    """Return the JSON merge patch from `current` to `desired`; empty if they are equal."""
    patch: Manifest = {key: None for key in current if key not in desired}
    for key, value in desired.items():
        if key not in current or current[key] != value:
            patch[key] = value
    return patch


def condition(
    type_: str,
    status: bool | str,
    reason: str,
    message: str = "",
) -> Manifest:
    """Return a condition without its times; `conditions` adds them."""
    text = status if isinstance(status, str) else ("True" if status else "False")
    return {"type": type_, "status": text, "reason": reason, "message": message}


def conditions(
    current: Iterable[Mapping[str, Any]] | None,
    wanted: Iterable[Manifest],
    now: datetime,
    *,
    update_time: bool = False,
) -> list[Manifest]:
    """`wanted` with `lastTransitionTime` kept where the status stayed.

    With `update_time` also `lastUpdateTime` (Deployments), kept where nothing changed at all.
    """
    before = {c["type"]: c for c in current or ()}
    result: list[Manifest] = []
    for new in wanted:
        old = before.get(new["type"])
        moved = old is None or old.get("status") != new["status"]
        times = {"lastTransitionTime": timestamp(now) if moved else old["lastTransitionTime"]}  # type: ignore[index]
        if update_time:
            same = old is not None and all(old.get(k, "") == v for k, v in new.items())
            times["lastUpdateTime"] = old["lastUpdateTime"] if same and old else timestamp(now)
        result.append({**{k: v for k, v in new.items() if v != ""}, **times})
    return result


def without_zeros(status: Mapping[str, Any], *keep: str) -> Manifest:
    """As Go's `omitempty` writes it: zero counts are left out, but for those in `keep`."""
    return {key: value for key, value in status.items() if value != 0 or key in keep}
