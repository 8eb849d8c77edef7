"""The decision of one pass: what changes now, why the rest waits, what halts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ctrlruntime.rollout.budget import resolve
from ctrlruntime.rollout.members import Change, ChangeKind, Member, excuse_shared_causes
from ctrlruntime.rollout.strategy import OnHalt, Strategy, Wave, in_order
from ctrlruntime.rollout.waiting import Reason, Waiting
from ctrlruntime.rollout.windows import closed_window, closing, next_opening

REST = "rest"
"""Name of the wave of all members that follows the waves of a strategy."""
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Assignment:
    """A version for a member, and the change to record on it in the same write."""

    name: str
    version: str
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now, and where the rollout stands before it is done.

    `look_again` is when time alone may change the decision. `for_new` is the version that a new member gets.
    """

    target: str
    changes: tuple[Assignment, ...] = ()
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    total: int = 0
    updated: int = 0
    changing: int = 0
    failed: tuple[str, ...] = ()
    halted: str = ""
    """Why the rollout is halted; empty if it is not."""
    returning: tuple[str, ...] = ()
    """The members that a rollback returns, now or once the budget allows it."""
    returned: int = 0
    """The members that a rollback has returned from the target."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """The changed members that a rollback leaves in the target, and why."""
    watched_until: datetime | None = None
    """Until when health that a changed member loses counts as a failure; None: no longer."""
    wave: str = ""
    """The wave in progress; empty if all members have the target."""
    look_again: datetime | None = None
    for_new: str = ""
    frozen: Waiting | None = None
    """The freeze that changes or rollbacks wait for; None: none is wanted, or nothing is frozen."""

    @property
    def is_complete(self) -> bool:
        """Whether all members have the target, and none is changing."""
        return self.updated == self.total and not self.changing

    @property
    def blocked_by(self) -> Waiting | None:
        """What keeps most of the waiting members, by name of the reason if several keep as many."""
        counts = Counter(item.reason for item in self.waiting.values())
        if not counts:
            return None
        reason = min(counts, key=lambda each: (-counts[each], each))
        return next(item for item in self.waiting.values() if item.reason is reason)


def decide(target: str, members: Sequence[Member], strategy: Strategy, now: datetime) -> Decision:
    """Return which members may change to `target` now. Equal input gives an equal decision.

    `members` are all members, in any order.
    """
    if strategy.jumps:
        members = [each.without_jumps(strategy.jumps) for each in members]
    judged = excuse_shared_causes(target, members, now, strategy.progress_deadline)
    return _Pass(target, sorted(judged, key=lambda member: member.name), strategy, now).decide()


def waves_of(target: str, members: Sequence[Member], strategy: Strategy) -> dict[str, str]:
    """Return by member the first wave that contains it; those in none are in the wave of the rest."""
    unpaused = [member for member in members if not member.paused]
    found: dict[str, str] = {}
    for wave in strategy.waves:
        for name in wave.select(target, unpaused):
            found.setdefault(name, wave.name)
    return {member.name: found.get(member.name, REST) for member in members}


@dataclass(slots=True)
class _Pass:
    target: str
    members: list[Member]
    strategy: Strategy
    now: datetime

    def decide(self) -> Decision:
        old = self._ordered(item for item in self.members if item.version != self.target)
        failed = [item for item in self._changed() if self._has_failed(item) and self._counts(item)]
        halted = self._halted(failed)
        wave, wave_waits = self._wave()
        waiting: dict[str, Waiting] = {
            item.name: Waiting(Reason.MEMBER_PAUSED, "the member is paused")
            for item in old
            if item.paused
        }
        old = [item for item in old if not item.paused]
        unfit = {item.name: Waiting(Reason.MEMBER_UNFIT, item.unfit) for item in old if item.unfit}
        waiting |= unfit
        waves_go_on = bool(old)
        old = [item for item in old if not item.unfit]
        changes: list[Assignment] = []
        kept, returning = self._kept(halted)
        stopped = self._stopped(halted)
        if returning and not self.strategy.paused and not self._is_frozen:
            changes = self._restored(returning)
        if stopped is not None:
            waiting |= {item.name: stopped for item in old}
        else:
            changes, held = self._advanced(old, wave, wave_waits)
            waiting |= held
        return Decision(
            target=self.target,
            changes=tuple(changes),
            waiting=waiting,
            total=len(self.members),
            updated=sum(item.version == self.target for item in self.members),
            changing=len(self._changing()),
            failed=tuple(item.name for item in failed),
            halted=halted + _left(kept),
            returning=tuple(item.name for item in returning),
            returned=len(self._returned()),
            kept=kept,
            watched_until=self._watched_until(),
            wave=wave.name if waves_go_on else "",
            look_again=self._look_again(waves_go_on),
            for_new=self._for_new(halted),
            frozen=self.strategy.hold if self._is_frozen and (old or returning) else None,
        )

    # -- members -----------------------------------------------------------------------------

    def _ordered(self, members: Iterable[Member]) -> list[Member]:
        found = {item.name: item for item in members}
        return [found[name] for name in in_order(self.target, found)]

    def _changed(self) -> list[Member]:
        """Return the members that have the target because they were changed."""
        return [
            item
            for item in self.members
            if item.version == self.target
            and item.change is not None
            and item.change.kind is not ChangeKind.ROLLBACK
        ]

    def _changing(self) -> list[Member]:
        deadline = self.strategy.progress_deadline
        return [item for item in self.members if item.is_changing(self.now, deadline)]

    def _soak(self) -> timedelta:
        return max([self.strategy.soak, *(wave.soak for wave in self.strategy.waves)])

    def _returned(self) -> list[Member]:
        """Return the members that a rollback has returned from the target."""
        return [
            item
            for item in self.members
            if item.change is not None
            and item.change.kind is ChangeKind.ROLLBACK
            and item.change.refused == self.target
        ]

    def _watched_until(self) -> datetime | None:
        if self.strategy.halt_on_failures is None and not self.strategy.health_checks:
            return None
        span = self.strategy.progress_deadline + self._soak()
        ends = [
            item.counted_from + span
            for item in self._changed()
            if item.counted_from is not None
            and item.change is not None
            and not item.change.is_fix
            and self._counts(item)
        ]
        return max((end for end in ends if end > self.now), default=None)

    def _has_failed(self, member: Member) -> bool:
        fix = member.change is not None and member.change.is_fix
        deadline = self.strategy.progress_deadline
        return not fix and member.has_failed(self.now, deadline, self._soak())

    def _is_broken(self, member: Member) -> bool:
        return member.is_broken(self.now, self.strategy.progress_deadline, self._soak())

    def _counts(self, member: Member) -> bool:
        resumed, change = self.strategy.resumed_at, member.change
        return resumed is None or change is None or change.at > resumed

    # -- what stops everything ---------------------------------------------------------------

    def _halted(self, failed: Sequence[Member]) -> str:
        if self.strategy.halt:
            return self.strategy.halt
        back = [item.name for item in self._returned() if self._counts(item)]
        if back:
            return f"{_number(back)} rolled back from this version: {_named(back)}"
        limit = self.strategy.halt_on_failures
        if limit is None or len(failed) < resolve(limit, len(self.members)):
            return ""
        names = [item.name for item in failed]
        return f"{_number(names)} failed: {_named(names)}"

    @property
    def _is_frozen(self) -> bool:
        """Whether a freeze holds rollbacks too; a window does not."""
        hold = self.strategy.hold
        return hold is not None and hold.reason is Reason.FROZEN

    def _stopped(self, halted: str) -> Waiting | None:
        if self.strategy.paused:
            return Waiting(Reason.PAUSED, "the rollout is paused")
        if self._is_frozen:
            return self.strategy.hold
        if halted:
            return Waiting(Reason.HALTED, f"the rollout is halted, {halted}")
        return closed_window(self.strategy.windows, self.now) or self.strategy.hold

    # -- waves and budget --------------------------------------------------------------------

    def _wave(self) -> tuple[Wave, Waiting | None]:
        """Return the wave in progress, and what its completion waits for once all its members have the target."""
        for wave in self.strategy.waves:
            chosen = self._chosen(wave)
            members = [item for item in self.members if item.name in chosen]
            if not wave.approved or any(item.version != self.target for item in members):
                return wave, None
            waits = self._unfinished(wave, members)
            if waits is not None:
                return wave, waits
        return Wave(name=REST), None

    def _chosen(self, wave: Wave) -> frozenset[str]:
        return wave.select(self.target, self._unpaused())

    def _unpaused(self) -> list[Member]:
        return [item for item in self.members if not item.paused]

    def _unfinished(self, wave: Wave, members: Sequence[Member]) -> Waiting | None:
        if not members:
            unfit = [item for item in wave.wanted(self._unpaused()) if item.unfit]
            if unfit:  # what nothing of the wave has shown is not passed on
                names = _named([item.name for item in unfit])
                text = f"wave {wave.name!r} begins with {names}: {unfit[0].unfit}"
                return Waiting(Reason.WAVE, text)
            empty = f"no member that is not paused is in the wave {wave.name!r}"
            return Waiting(Reason.WAVE, empty) if wave.labels else None
        judged = [item for item in members if self._is_evidence(item)]
        unready = [item.name for item in judged if not item.is_ready and not self._is_settled(item)]
        if unready:
            return Waiting(
                Reason.WAVE, f"wave {wave.name!r}: {_number(unready)} not ready: {_named(unready)}"
            )
        if not judged:
            return Waiting(Reason.WAVE, f"wave {wave.name!r}: none of its members shows a result")
        soaked = [found for item in judged if (found := item.soaked_at(wave.soak)) is not None]
        until = max(soaked, default=self.now)
        if until > self.now:
            text = f"wave {wave.name!r} soaks until {until.isoformat()}"
            return Waiting(Reason.WAVE, text, until)
        return None

    def _is_evidence(self, member: Member) -> bool:
        """Whether a member that has the target counts as evidence about it, being ready or not."""
        if member.is_ready:
            return True
        return member.change is not None and not member.change.is_fix

    def _is_settled(self, member: Member) -> bool:
        """Whether a member that is not ready was fine until long after its change."""
        overdue = not member.is_changing(self.now, self.strategy.progress_deadline)
        return overdue and not self._has_failed(member)

    def _advanced(
        self, old: Sequence[Member], wave: Wave, wave_waits: Waiting | None
    ) -> tuple[list[Assignment], dict[str, Waiting]]:
        """Return the members that change now, and why the others do not."""
        chosen = self._chosen(wave)
        slots, budget_waits = self._slots(wave)
        changes: list[Assignment] = []
        waiting: dict[str, Waiting] = {}
        for item in old:
            if self._is_broken(item):
                changes.append(self._change(item))
            elif item.name not in chosen:
                text = f"wave {wave.name!r} is not done"
                waiting[item.name] = wave_waits or Waiting(Reason.WAVE, text)
            elif not wave.approved:
                text = f"wave {wave.name!r} waits for an approval"
                waiting[item.name] = Waiting(Reason.APPROVAL, text)
            elif slots is not None and slots <= 0:
                waiting[item.name] = budget_waits
            else:
                slots = None if slots is None else slots - 1
                changes.append(self._change(item))
        return changes, waiting

    def _slots(self, wave: Wave | None = None) -> tuple[int | None, Waiting]:
        """How many members more may change at once; None is no bound."""
        limits = [self.strategy.max_skew, None if wave is None else wave.max_concurrent]
        bounds = [resolve(limit, len(self.members)) for limit in limits if limit is not None]
        changing = len(self._changing())
        if not bounds:
            return None, Waiting(Reason.BUDGET, "")
        message = f"{changing} members are changing, {min(bounds)} may at once"
        return min(bounds) - changing, Waiting(Reason.BUDGET, message)

    def _change(self, member: Member) -> Assignment:
        """Return a slot that the member has is kept; what fails without one is a fix."""
        broken, before = self._is_broken(member), member.change
        in_slot = member.is_changing(self.now, self.strategy.progress_deadline)
        irreversible = self.strategy.irreversible
        previous = member.version
        if broken and before is not None and before.previous not in {"", self.target}:
            previous = before.previous  # the member was never ready in the version that it has
            irreversible |= before.is_irreversible
        change = Change(
            ChangeKind.ROLLOUT,
            self.now,
            previous,
            is_irreversible=irreversible,
            is_fix=broken and not in_slot,
        )
        return Assignment(member.name, self.target, change)

    # -- back --------------------------------------------------------------------------------

    def _kept(self, halted: str) -> tuple[dict[str, str], list[Member]]:
        """Return the changed members that a rollback leaves, with the reason, and those that it returns."""
        if not halted or self.strategy.on_halt is not OnHalt.ROLLBACK:
            return {}, []
        kept: dict[str, str] = {}
        returning: list[Member] = []
        for item in self._ordered(self._changed()):
            why = self._why_kept(item)
            if why:
                kept[item.name] = why
            else:
                returning.append(item)
        return kept, returning

    def _why_kept(self, member: Member) -> str:
        change = member.change
        if change is None or change.previous in {"", self.target}:
            return "no version before is recorded"
        if self.strategy.irreversible or change.is_irreversible:
            return "the change is irreversible"
        if member.irreversible:
            return member.irreversible
        restorable = self.strategy.restorable
        if restorable is not None and change.previous not in restorable:
            return f"the content of version {change.previous} is not recorded"
        return "the member is paused" if member.paused else ""

    def _restored(self, returning: Sequence[Member]) -> list[Assignment]:
        """Return the members that go back now: at once if they are not ready, else within the budget."""
        deadline = self.strategy.progress_deadline
        slots, _ = self._slots()
        found: list[Assignment] = []
        for item in sorted(returning, key=lambda each: each.is_ready):
            change = item.change
            if change is None:
                continue
            if item.is_ready and slots is not None:
                if slots <= 0:
                    continue
                slots -= 1
            apart = not item.is_ready and not item.is_changing(self.now, deadline)
            back = Change(ChangeKind.ROLLBACK, self.now, refused=self.target, is_fix=apart)
            found.append(Assignment(item.name, change.previous, back))
        return found

    def _for_new(self, halted: str) -> str:
        """Return the target; while halted, the version before, and while held, what most members have."""
        left_out = {"", self.target} if halted else {""}
        versions = Counter(item.version for item in self.members if item.version not in left_out)
        if not (halted or self.strategy.hold) or not versions:
            return self.target
        return min(versions, key=lambda each: (-versions[each], each))

    def _look_again(self, pending: bool) -> datetime | None:
        """Return the next moment at which a deadline, a soak or a window changes something."""
        strategy = self.strategy
        moments = [
            item.counted_from + strategy.progress_deadline
            for item in self._changing()
            if item.counted_from is not None
        ]
        if strategy.hold is not None and strategy.hold.until is not None:
            moments.append(strategy.hold.until)
        if pending:
            moments += filter(
                None,
                (closing(strategy.windows, self.now), next_opening(strategy.windows, self.now)),
            )
            soaks = {wave.soak for wave in strategy.waves}
            updated = [item for item in self._changed() if item.is_ready]
            moments += filter(None, (item.soaked_at(soak) for item in updated for soak in soaks))
        return min((moment for moment in moments if moment > self.now), default=None)


def _left(kept: Mapping[str, str]) -> str:
    """Return what is not rolled back, and why, as the end of a sentence."""
    reasons: dict[str, list[str]] = {}
    for name, why in kept.items():
        reasons.setdefault(why, []).append(name)
    return "".join(
        f"; {_number(names)} not rolled back, {why}: {_named(names)}"
        for why, names in sorted(reasons.items())
    )


def _number(names: Sequence[str]) -> str:
    return "1 member" if len(names) == 1 else f"{len(names)} members"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"
