"""A simulated fleet in virtual time: members change, become ready or fail, and are seen late."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from ctrlruntime.rollout import Assignment, Decision, Health, Member, Strategy, decide

START = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@dataclass(slots=True)
class Simulation:
    """Runs passes over a fleet whose health is seen up to `delay` seconds late.

    `bad` versions never become ready, and `stuck` members never do in any version but `first`. `sick` members
    lose health `sick_after` seconds after they became ready in another version than `first`.
    """

    members: dict[str, Member]
    strategy: Strategy
    target: str
    seed: int = 0
    delay: int = 0
    bad: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()
    sick: frozenset[str] = frozenset()
    sick_after: int = 30
    first: str = "v1"
    slowest: int = 8
    now: datetime = START
    ready_at: dict[str, datetime] = field(default_factory=dict)
    sick_at: dict[str, datetime] = field(default_factory=dict)
    assigned: list[Assignment] = field(default_factory=list)
    most_changing: int = 0
    last: Decision | None = None
    _views: dict[str, deque[Member]] = field(default_factory=dict)
    _random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def view(self) -> list[Member]:
        """The members as a cache has them: late, and never older than the last write to each."""
        found = []
        for name in self.members:
            views = self._views[name]
            for _ in range(self._random.randint(0, len(views) - 1)):
                views.popleft()  # what was seen once is not seen older again
            found.append(views[0])
        self._random.shuffle(found)
        return found

    def step(self, *, crash: bool = False) -> Decision:
        """One pass a second. A crash carries out some of the changes only, and forgets all else."""
        self.now += SECOND
        self._become_ready()
        decision = decide(self.target, self.view(), self.strategy, self.now)
        done = list(decision.changes)
        if crash:
            done = done[: self._random.randint(0, len(done))]
            self._views = {
                name: deque([m], maxlen=self.delay + 1) for name, m in self.members.items()
            }
        for item in done:
            self._assign(item)
        self.last = decision
        self.most_changing = max(self.most_changing, len(self.changing()))
        return decision

    def run(self, steps: int, *, crashes: frozenset[int] = frozenset()) -> None:
        for number in range(steps):
            self.step(crash=number in crashes)

    def changing(self) -> list[str]:
        """Members that were changed, are not ready in truth, and were not broken before."""
        return [
            name
            for name, member in self.members.items()
            if member.is_changing(self.now, self.strategy.progress_deadline)
        ]

    def changed(self) -> set[str]:
        return {item.name for item in self.assigned if item.version == self.target}

    def versions(self) -> dict[str, str]:
        return {name: member.version for name, member in self.members.items()}

    def _assign(self, item: Assignment) -> None:
        member = self.members[item.name]
        after = replace(
            member,
            version=item.version,
            health=Health.PROGRESSING,
            health_since=self.now if member.is_ready else member.health_since,
            change=item.change,
        )
        self.members[item.name] = after
        self._views[item.name] = deque([after], maxlen=self.delay + 1)
        self.assigned.append(item)
        self.sick_at.pop(item.name, None)
        self.ready_at[item.name] = self.now + self._random.randint(1, self.slowest) * SECOND

    def _become_ready(self) -> None:
        for name, member in self.members.items():
            due = self.ready_at.get(name)
            if due is not None and due <= self.now:
                del self.ready_at[name]
                broken = member.version in self.bad
                broken |= name in self.stuck and member.version != self.first
                health = Health.FAILED if broken else Health.READY
                since = member.health_since if broken else self.now
                self.members[name] = replace(member, health=health, health_since=since)
                if name in self.sick and member.version != self.first:
                    self.sick_at[name] = self.now + self.sick_after * SECOND
            if name in self.sick_at and self.sick_at[name] <= self.now:
                del self.sick_at[name]
                self.members[name] = replace(
                    self.members[name], health=Health.FAILED, health_since=self.now
                )
            views = self._views.setdefault(name, deque(maxlen=self.delay + 1))
            views.append(self.members[name])


def fleet(size: int, *, version: str = "v1", failed: int = 0) -> dict[str, Member]:
    """Members in order, the first `failed` of which have failed."""
    return {
        f"m{number}": Member(
            name=f"m{number}",
            version=version,
            health=Health.FAILED if number < failed else Health.READY,
            health_since=START - timedelta(days=1),
        )
        for number in range(size)
    }
