"""Members of a rollout: their version and health, and the change recorded on each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from ctrlruntime.rollout.observed import ClockJump, observed_from


class Health(StrEnum):
    """Health of a member in the version that it has."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    """Not ready, or its controller has not observed the version yet."""
    FAILED = "Failed"


class ChangeKind(StrEnum):
    """Why a member was changed."""

    ROLLOUT = "Rollout"
    ROLLBACK = "Rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What a member was ready with, first of all since its last change, beside what it has now; "" where unknown.

    Both are texts without what the change itself brought, such as a generation and a digest of shared inputs.
    """

    first: str = ""
    now: str = ""
    given: str = ""
    """What it shares with others as its change found it, and `shares` as it is now; "" where unknown."""
    shares: str = ""

    def excuses(self, *, failed: bool) -> bool:
        """Whether a member that is not ready is so for another cause than its change.

        After it was ready, health is lost by the change if something of it `failed` while all else is as it was.
        Before, only what it shares with others can have become another since the change.
        """
        if not self.first:
            return bool(self.given and self.shares) and self.given != self.shares
        return not failed or self.first != self.now


@dataclass(frozen=True, slots=True)
class Change:
    """The last change of a member, recorded on it in the write that made the change."""

    kind: ChangeKind
    at: datetime
    previous: str = ""
    """The version to roll back to; empty: there is none."""
    refused: str = ""
    """For a rollback: the version that the member left."""
    is_irreversible: bool = False
    """Whether a rollback leaves the member in the version that this change gave it."""
    is_fix: bool = False
    """Whether the member had failed before: it is counted apart from the budget and from the failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member as the caller's cache has it, never older than the caller's own last write to it.

    `health_since` is when readiness was gained or lost last; None if unknown. `group` is what the shares of
    waves go by, and `labels` are what waves select by. A `paused` member is never changed. One with a reason in
    `unfit`, such as a failure that no rollout caused, is part of the shares of waves, but is not changed. While
    one is `held`, something outside of the rollout keeps its change from being made, and its deadline does not run;
    afterwards it runs from `resumed_at`. One that is `excused` is not ready for another cause than its change, such
    as an edit: it has not failed. `causes` are why it is not ready, without its own name: a cause that members have
    as well whom the rollout did not change excuses it. A rollback leaves one with a text in `irreversible`.
    """

    name: str
    version: str
    health: Health
    health_since: datetime | None = None
    change: Change | None = None
    group: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    paused: bool = False
    unfit: str = ""
    held: bool = False
    resumed_at: datetime | None = None
    excused: bool = False
    was_ready: bool = False
    """Whether it was ready since its change."""
    causes: frozenset[str] = frozenset()
    irreversible: str = ""

    @property
    def is_ready(self) -> bool:
        return self.health is Health.READY

    @property
    def counted_from(self) -> datetime | None:
        """When the deadline of the last change began; None if there is no change, or while it does not run."""
        if self.change is None or self.held:
            return None
        return max(self.change.at, self.resumed_at or self.change.at)

    def without_jumps(self, jumps: tuple[ClockJump, ...]) -> Member:
        """Return the member with a deadline that runs for as long as was observed."""
        begun = self.counted_from
        return self if begun is None else replace(self, resumed_at=observed_from(begun, jumps))

    def is_changing(self, now: datetime, deadline: timedelta) -> bool:
        """Return whether the member takes a slot of the budget: changed, not ready, and in time.

        One that is excused before it was ready keeps its slot: whether its change works is not known yet.
        """
        change = self.change
        if change is None or change.is_fix or self.is_ready:
            return False
        if self.excused and not self.was_ready:
            return True
        begun = self.counted_from
        return begun is None or now < begun + deadline

    def has_failed(self, now: datetime, deadline: timedelta, soak: timedelta) -> bool:
        """Return whether the last change failed: it is not ready in time, or lost health during the soak.

        What happens to the member after that is not put down to the change.
        """
        if self.change is None or self.is_ready or self.excused:
            return False
        begun = self.counted_from
        if begun is None:
            return self.health is Health.FAILED
        if self.health is not Health.FAILED and now < begun + deadline:
            return False
        return (self.health_since or now) <= begun + deadline + soak

    def is_broken(self, now: datetime, deadline: timedelta, soak: timedelta) -> bool:
        """Return whether another version may be a fix: the member failed, or was changed and is not ready."""
        if self.excused:
            return False
        if self.health is Health.FAILED or self.is_changing(now, deadline):
            return True
        fixing = self.change is not None and self.change.is_fix
        return self.has_failed(now, deadline, soak) or (fixing and not self.is_ready)

    def soaked_at(self, soak: timedelta) -> datetime | None:
        """Return when a ready member has been ready for `soak`; None if it was not changed."""
        if self.change is None:
            return None
        return max(self.change.at, self.health_since or self.change.at) + soak


def excuse_shared_causes(
    target: str, members: Sequence[Member], now: datetime, deadline: timedelta
) -> list[Member]:
    """Return the members, those excused that are not ready for causes which others have as well.

    The others have another version than the target, are not changing, and lost their health in the time of the
    rollout, or at most `deadline` before: such a cause, as of a webhook or a quota, is not of the target.
    """
    begun = [each.change.at for each in members if each.version == target and each.change]
    since = min(begun, default=now) - deadline
    shared = frozenset[str]().union(
        *(
            each.causes
            for each in members
            if each.version != target
            and not each.is_ready
            and not each.is_changing(now, deadline)
            and each.health_since is not None
            and each.health_since >= since
        )
    )
    return [
        replace(each, excused=True)
        if each.version == target and not each.is_ready and each.causes and each.causes <= shared
        else each
        for each in members
    ]
