"""Freezes: objects that hold the changes of whole systems, from outside of any rollout. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from ctrlruntime.cache.entry import Entry
from ctrlruntime.queue import Request
from ctrlruntime.rollout.waiting import Reason, Waiting


class FrozenObject(NamedTuple):
    """An object whose changes a freeze may hold."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Holds the changes of `systems` in `namespaces`; an empty set is all of them. It does not hold those of `exempt`.

    It is active from `starts_at` on, and before `until`; None is no bound.
    """

    name: str
    why: str = ""
    systems: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    exempt: frozenset[FrozenObject] = frozenset()
    starts_at: datetime | None = None
    until: datetime | None = None

    def is_active(self, now: datetime) -> bool:
        """Return whether it holds changes now."""
        if self.starts_at is not None and now < self.starts_at:
            return False
        return self.until is None or now < self.until

    def next_edge(self, now: datetime) -> datetime | None:
        """Return when it begins or ends next by itself; None: never."""
        if self.until is not None and now >= self.until:
            return None
        if self.starts_at is not None and now < self.starts_at:
            return self.starts_at
        return self.until

    def covers(self, system: str, namespace: str) -> bool:
        """Return whether it is about this system and namespace."""
        if self.systems and system not in self.systems:
            return False
        return not self.namespaces or namespace in self.namespaces

    def describe(self) -> str:
        """Return its name and reason, and until when, as a clause."""
        why = f", {self.why}" if self.why else ""
        end = "until it is deleted" if self.until is None else f"until {self.until.isoformat()}"
        return f"ChangeFreeze {self.name!r} holds all changes{why}, {end}"


def hold_of(
    freezes: Iterable[Freeze],
    system: str,
    namespace: str,
    now: datetime,
    changed: FrozenObject | None = None,
) -> Waiting | None:
    """Return why changes of a system wait in a namespace, by the freeze that ends last; None: they do not.

    `changed` is the object concerned; without it no exemption counts.
    """
    active = [
        item
        for item in freezes
        if changed not in item.exempt and item.covers(system, namespace) and item.is_active(now)
    ]
    if not active:
        return None
    endless = sorted((item for item in active if item.until is None), key=lambda item: item.name)
    last = endless[0] if endless else max(active, key=_end)
    return Waiting(Reason.FROZEN, last.describe(), last.until)


def _end(freeze: Freeze) -> tuple[str, str]:
    return ("" if freeze.until is None else freeze.until.isoformat(), freeze.name)


def next_edge(freezes: Iterable[Freeze], now: datetime) -> datetime | None:
    """Return when the next freeze begins or ends by itself; None: none does."""
    return min(filter(None, (item.next_edge(now) for item in freezes)), default=None)


class ChangeHolds(Protocol):
    """What holds changes of one system from outside."""

    def waiting(self, request: Request, frozen: Entry | None = None) -> Waiting | None:
        """Return why changes of an object wait; None: they may be made.

        `frozen` is the object that a freeze may exempt: itself or what it belongs to.
        """

    def record(self, request: Request, changes: int) -> None:
        """Record how many changes of an object wait for `waiting` to end; it is woken then."""

    def forget(self, request: Request, /) -> None:
        """Record that an object is gone."""


class NoHolds:
    """Holds nothing."""

    def waiting(self, request: Request, frozen: Entry | None = None) -> Waiting | None:
        return None

    def record(self, request: Request, changes: int) -> None:
        """Record nothing."""

    def forget(self, request: Request, /) -> None:
        """Forget nothing."""
