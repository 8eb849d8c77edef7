"""When failed Pods halt the rollout to the others, by the rules of `ctrlruntime.rollout`. Pure.

The order of Pods and how many may be down stay the workload's own. A halt holds: nothing is rolled back, since what runs
in a Pod may have changed its disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ctrlruntime.cache.entry import Entry
from ctrlruntime.rollout import (
    Change,
    ChangeKind,
    Health,
    Member,
    NumberOrPercent,
    Reason,
    Strategy,
    Waiting,
    decide,
    resolve,
)
from internal.cosmos.workload.pod_failure import created, is_crashing, is_initialising, is_stuck
from internal.cosmos.workload.probe import Health as PodHealth

PROGRESS_DEADLINE: Final = timedelta(minutes=10)
"""How long a Pod may take to answer, by default."""
_DESIRED: Final = "desired"
_OUTDATED: Final = "outdated"
NOT_ASKED: Final = PodHealth(False, False, "nothing is known of it yet", known=False)
"""The health of a Pod that was not polled yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltRules:
    """When a rollout halts."""

    limit: NumberOrPercent
    """So many failed Pods halt it; a percentage is of the replicas."""
    now: datetime
    deadline: timedelta = PROGRESS_DEADLINE
    fixes: Collection[str] = ()
    """Names of Pods that had failed before their last change: until they work they do not count as failed."""


@dataclass(frozen=True, slots=True)
class Halting:
    """What the rules say."""

    failed: tuple[str, ...] = ()
    """Pods of the desired revision that have failed."""
    halted: str = ""
    """Why no other Pod is changed; empty: the rollout is not halted."""
    waits: str = ""
    """Why no outdated Pod is replaced now, in words: it is halted, or a Pod has not been polled yet."""
    fixes: frozenset[str] = frozenset()
    """Outdated Pods whose replacement is a fix."""
    look_again: datetime | None = None
    """When the next deadline ends."""


def halting(
    rules: HaltRules | None,
    pods: Mapping[str, Entry],
    health: Mapping[str, PodHealth],
    outdated: Collection[str],
    replicas: int,
) -> Halting:
    """Return what the rules say of the Pods that exist; `outdated` are the names of those of another revision."""
    if rules is None:
        return Halting()
    members = [
        _member(rules, entry, health.get(name, NOT_ASKED), name in outdated)
        for name, entry in sorted(pods.items())
    ]
    strategy = Strategy(
        halt_on_failures=resolve(rules.limit, replicas),
        progress_deadline=rules.deadline,
        hold=next(_unknown(rules, pods, health, outdated), None),
    )
    decision = decide(_DESIRED, members, strategy, rules.now)
    waits = next((item.message for item in decision.waiting.values()), "")
    return Halting(
        failed=decision.failed,
        halted=decision.halted if outdated else "",
        waits=waits,
        fixes=frozenset(item.name for item in decision.changes if item.change.is_fix),
        look_again=decision.look_again,
    )


def remaining_fixes(
    rules: HaltRules | None,
    desired: Collection[str],
    outdated: Collection[str],
    health: Mapping[str, PodHealth],
) -> frozenset[str]:
    """Return the recorded fixes without those that work, and those that are no longer wanted."""
    if rules is None:
        return frozenset()
    works = {name for name, each in health.items() if each.available and name not in outdated}
    return frozenset(name for name in rules.fixes if name in desired and name not in works)


def _member(rules: HaltRules, entry: Entry, health: PodHealth, is_outdated: bool) -> Member:
    began = created(entry, rules.now)
    crashing = is_stuck(entry) or is_crashing(entry, rules.now, rules.deadline)
    found = Health.PROGRESSING
    if crashing:
        found = Health.FAILED
    elif health.available:
        found = Health.READY
    return Member(
        name=entry.name,
        version=_OUTDATED if is_outdated else _DESIRED,
        health=found,
        health_since=began,
        change=Change(ChangeKind.ROLLOUT, began, is_fix=entry.name in rules.fixes),
        held=found is Health.PROGRESSING and not _counts_down(entry, health),
    )


def _counts_down(entry: Entry, health: PodHealth) -> bool:
    """Whether the deadline of a Pod that does not work runs: it is known not to answer, and nothing prepares its start."""
    return health.known and not health.reachable and not is_initialising(entry)


def _unknown(
    rules: HaltRules,
    pods: Mapping[str, Entry],
    health: Mapping[str, PodHealth],
    outdated: Collection[str],
) -> Iterator[Waiting]:
    """Pods that may have failed, and were not polled since the manager started."""
    for name in sorted(pods.keys() - set(outdated) - set(rules.fixes)):
        asked = health.get(name, NOT_ASKED)
        is_late = created(pods[name], rules.now) + rules.deadline <= rules.now
        if is_late and not asked.known and not asked.reachable:
            text = f"{name} has not been polled yet, and may have failed"
            yield Waiting(Reason.HEALTH, text)
