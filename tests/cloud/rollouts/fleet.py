"""A simulated fleet in virtual time: instances that upgrade, and a FleetRollout carried out pass by pass.

The decisions, assignments and statuses are the product's; only the API server and the upgrades are simulated.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import yaml

from apis.cloud import FleetRollout, FleetRolloutStatus, Phase
from ctrlruntime.rollout import Assignment, Decision, Health, decide
from internal.cloud.release_assignment import ReleaseAssignment
from internal.cloud.rollouts.members import FleetInstance, fleet_of
from internal.cloud.rollouts.status import summarize
from internal.cloud.rollouts.strategy import strategy_of

SAMPLES = Path(__file__).parents[3] / "config" / "samples"
TYPES = ("internal", "trial", "production")


def sample(name: str, **spec: object) -> FleetRollout:
    """Return a preset of config/samples, with other fields of the spec."""
    manifest = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text())
    manifest["metadata"]["generation"] = 1
    manifest["spec"] |= spec
    return FleetRollout.from_manifest(manifest)


def instances(counts: dict[str, int], version: str = "5.2.0") -> dict[str, FleetInstance]:
    """Return ready instances, so many of each type."""
    return {
        f"{kind}-{number}": FleetInstance(
            name=f"{kind}-{number}",
            version=version,
            spec_version=version,
            health=Health.READY,
            health_since=datetime.fromisoformat("2026-01-01T00:00:00+00:00"),
            phase=Phase.READY,
            assignment=None,
            labels={"instance-type": kind},
            paused=False,
        )
        for kind, size in counts.items()
        for number in range(size)
    }


@dataclass(slots=True)
class FleetSimulation:
    """Passes over a fleet. An upgrade takes up to `slowest`; to a version in `bad` it fails."""

    rollout: FleetRollout
    fleet: dict[str, FleetInstance]
    now: datetime
    bad: frozenset[str] = frozenset()
    slowest: timedelta = timedelta(minutes=45)
    annotations: dict[str, str] = field(default_factory=dict)
    random: random.Random = field(default_factory=lambda: random.Random(7))
    assigned: list[tuple[datetime, Assignment]] = field(default_factory=list)
    most_changing: int = 0
    status: FleetRolloutStatus = field(default_factory=FleetRolloutStatus)
    _ready_at: dict[str, datetime] = field(default_factory=dict)

    def step(self, span: timedelta) -> Decision:
        """Let time pass, and make one pass."""
        self.now += span
        self._finish_upgrades()
        name, spec = self.rollout.metadata.name or "", self.rollout.spec
        found = list(self.fleet.values())
        self.random.shuffle(found)
        fleet = fleet_of(name, spec, found, (), self.now)
        strategy = strategy_of(spec, self.annotations)
        decision = decide(spec.target_version, fleet.members, strategy, self.now)
        for item in decision.changes:
            self._assign(item)
        self.status = summarize(
            self.status, spec, decision, fleet, strategy, 1, self.now, place=f"{name} -n default"
        )
        self.most_changing = max(self.most_changing, len(self._ready_at))
        return decision

    def run(self, until: datetime, span: timedelta) -> None:
        while self.now < until:
            self.step(span)

    def counts(self) -> dict[str, int]:
        """Return by type how many instances have the target."""
        there = Counter(
            item.labels["instance-type"]
            for item in self.fleet.values()
            if item.version == self.rollout.spec.target_version
        )
        return {kind: there[kind] for kind in TYPES}

    def _assign(self, item: Assignment) -> None:
        before = self.fleet[item.name]
        assignment = ReleaseAssignment(
            rollout=self.rollout.metadata.name or "",
            version=item.version,
            spec_version=before.spec_version,
            change=item.change,
        )
        self.fleet[item.name] = replace(
            before,
            version=item.version,
            assignment=assignment,
            health=Health.PROGRESSING,
            health_since=None,
            phase=Phase.RUNNING,
        )
        minutes = self.random.randint(1, int(self.slowest.total_seconds() // 60))
        self._ready_at[item.name] = self.now + timedelta(minutes=minutes)
        self.assigned.append((self.now, item))

    def _finish_upgrades(self) -> None:
        for name in [name for name, due in self._ready_at.items() if due <= self.now]:
            del self._ready_at[name]
            item = self.fleet[name]
            failed = item.version in self.bad
            self.fleet[name] = replace(
                item,
                health=Health.FAILED if failed else Health.READY,
                health_since=self.now,
                phase=Phase.FAILED if failed else Phase.READY,
            )
