"""How a rollout proceeds: waves, budget, windows, and when it halts. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from ctrlruntime.rollout.budget import NumberOrPercent
from ctrlruntime.rollout.health_checks import HealthCheck
from ctrlruntime.rollout.members import Member
from ctrlruntime.rollout.observed import ClockJump
from ctrlruntime.rollout.waiting import Waiting
from ctrlruntime.rollout.windows import Window

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


class OnHalt(StrEnum):
    """What a halt does to the members that were changed."""

    HOLD = "Hold"
    ROLLBACK = "Rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """A stage: which members it adds, and how long they have to be ready before the next stage.

    `percent` is the share of each group, rounded up, and `shares` replaces it for single groups. With `labels`,
    only members that have all of them are in the wave, and a wave without any member holds the rollout.
    """

    name: str
    percent: int = 100
    shares: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    soak: timedelta = timedelta(0)
    max_concurrent: NumberOrPercent | None = None
    approved: bool = True

    def select(self, target: str, members: Iterable[Member]) -> frozenset[str]:
        """Return the names of the wave's members.

        Members that have the target come first, those that were changed earlier before the others. So a wave
        stays as it was chosen while members become unfit and fit again.
        """
        chosen: set[str] = set()
        for found, count in self._groups(members):
            fit = [item for item in found if item.version == target or not item.unfit]
            if 0 < count < len(fit):  # otherwise the order does not matter
                fit.sort(key=lambda item: (_since(target, item), _position(target, item.name)))
            chosen.update(item.name for item in fit[:count])
        return frozenset(chosen)

    def wanted(self, members: Iterable[Member]) -> list[Member]:
        """Return the members of which the wave takes a share, fit or not."""
        return [item for found, count in self._groups(members) if count for item in found]

    def _groups(self, members: Iterable[Member]) -> Iterator[tuple[list[Member], int]]:
        """Yield the members of each group, with how many of them the wave takes."""
        groups: dict[str, list[Member]] = {}
        for member in members:
            if self.labels.items() <= member.labels.items():
                groups.setdefault(member.group, []).append(member)
        for group, found in groups.items():
            share = self.shares.get(group, self.percent)
            yield found, -(-len(found) * share // 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How members get a target version. All members follow once the last of `waves` is done.

    `max_skew` bounds how many change at once; None is no bound. `halt_on_failures` failed members halt the
    rollout; None never does. Failures and rollbacks up to `resumed_at` do not count. An `irreversible` change
    to the target is never rolled back; `restorable` are the versions that a rollback can give, None: any. A text
    in `halt` halts the rollout for that reason, whatever has failed. `hold` is what holds all changes from outside of
    the rollout: for Frozen rollbacks too. With `health_checks`, changed members are watched also without
    `halt_on_failures`; what their results mean is not decided here.
    """

    waves: tuple[Wave, ...] = ()
    max_skew: NumberOrPercent | None = None
    progress_deadline: timedelta = timedelta(minutes=10)
    soak: timedelta = timedelta(0)
    """How long after its deadline a member that loses health still counts as a failure of its change."""
    halt_on_failures: NumberOrPercent | None = None
    on_halt: OnHalt = OnHalt.HOLD
    halt: str = ""
    irreversible: bool = False
    restorable: frozenset[str] | None = None
    paused: bool = False
    hold: Waiting | None = None
    windows: tuple[Window, ...] = ()
    health_checks: tuple[HealthCheck, ...] = ()
    resumed_at: datetime | None = None
    jumps: tuple[ClockJump, ...] = ()
    """Jumps of the clock while deadlines ran: they do not count against a version."""


def _since(target: str, member: Member) -> datetime:
    """Since when a member has the target; members without it come last."""
    if member.version != target:
        return _LAST
    return _FIRST if member.change is None else member.change.at


def in_order(target: str, names: Iterable[str]) -> list[str]:
    """Return names in the order in which they get a target, the same in every process.

    By a hash of both, so that it is not always the same members that go first.
    """
    return sorted(names, key=lambda name: (_position(target, name), name))


def _position(target: str, name: str) -> bytes:
    return hashlib.blake2b(f"{target}/{name}".encode(), digest_size=8).digest()
