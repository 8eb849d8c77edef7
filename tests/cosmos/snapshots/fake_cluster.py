"""A cluster as plain data, for the state machine: sets of nodes, Pods, snapshots, and a time that is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from apis.cosmos import (
    CosmosFullNodeStatus,
    ScheduledVolumeSnapshotSpec,
    ScheduledVolumeSnapshotStatus,
)
from ctrlruntime.schedule import BadSchedule, parse
from internal.cosmos.snapshots.effects import (
    Create,
    Delete,
    Effect,
    Hold,
    Pause,
    Release,
    Restore,
)
from internal.cosmos.snapshots.facts import Facts, Made, Node, Paused
from internal.cosmos.snapshots.machine import IDLE, Step, step
from internal.cosmos.snapshots.naming import pause_key
from internal.cosmos.snapshots.pausing import AnotherIsDown, others_down, pause, restore
from internal.cosmos.snapshots.retention import Kept

NAMESPACE = "chains"
SET = "chain"
BEGIN = datetime(2026, 1, 1, 0, 0, tzinfo=UTC)


def spec(**fields: object) -> ScheduledVolumeSnapshotSpec:
    given = {
        "fullNodeRef": {"name": SET},
        "schedule": "*/10 * * * *",
        "volumeSnapshotClassName": "fast",
        "deletePod": True,
        **fields,
    }
    return ScheduledVolumeSnapshotSpec.model_validate(given)


@dataclass
class Copy:
    """A VolumeSnapshot."""

    source: str
    made_at: datetime
    ready: bool = False
    error: str | None = None
    bound: bool = False
    cut: bool = False

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = {"readyToUse": True} if self.ready else {}
        if self.bound or self.cut:
            found["boundVolumeSnapshotContentName"] = "content"
        return {**found, "creationTime": self.made_at.isoformat()} if self.cut else found


@dataclass
class Cluster:
    """What all schedules share."""

    now: datetime = BEGIN
    replicas: int = 3
    exists: bool = True
    served: bool = True
    status: CosmosFullNodeStatus = field(default_factory=CosmosFullNodeStatus)
    pods: set[str] = field(default_factory=lambda: {f"{SET}-{i}" for i in range(3)})
    lagging: set[str] = field(default_factory=set)
    copies: dict[str, Copy] = field(default_factory=dict)
    without_class: bool = False
    heights: dict[str, int] = field(default_factory=dict)
    """Next heights, by Pod."""
    losing_disks: set[str] = field(default_factory=set)
    """Pods whose claims are being deleted."""
    made: list[str] = field(default_factory=list)
    """Every snapshot that was ever made."""

    @property
    def wanted(self) -> list[str]:
        return [f"{SET}-{ordinal}" for ordinal in range(self.replicas)] if self.exists else []

    @property
    def down(self) -> dict[str, str]:
        """Pods that are not to be, by who asked."""
        if not self.exists:
            return {}
        paused = self.status.scheduled_snapshot_status
        return {key: each.pod_candidate for key, each in paused.items()}

    def settle(self) -> None:
        """Pods end and come, as the set of nodes would have it."""
        self.pods = set(self.wanted) - set(self.down.values())

    @property
    def synced(self) -> list[str]:
        return [pod for pod in self.wanted if pod in self.pods and pod not in self.lagging]

    def pass_time(self, **length: int) -> None:
        self.now += timedelta(**length)


@dataclass
class Schedule:
    """One ScheduledVolumeSnapshot, and whoever works on it."""

    cluster: Cluster
    spec: ScheduledVolumeSnapshotSpec
    name: str = "nightly"
    status: ScheduledVolumeSnapshotStatus = field(default_factory=ScheduledVolumeSnapshotStatus)
    held: bool = False
    deleting: bool = False
    gone: bool = False
    did: list[Effect] = field(default_factory=list)

    def facts(self) -> Facts:
        cluster, status = self.cluster, self.status
        key = pause_key(NAMESPACE, self.name)
        pod = status.candidate.pod_name if status.candidate else ""
        nodes = tuple(
            Node(
                each,
                int(each.rpartition("-")[2]),
                f"pvc-{each}",
                {"app": each},
                losing_disk=each in cluster.losing_disks,
            )
            for each in cluster.synced
        )
        idle = status.phase is None or status.phase in IDLE
        paused = cluster.status.scheduled_snapshot_status if cluster.exists else {}
        try:
            times, problem = parse(self.spec.schedule, self.spec.time_zone), ""
        except BadSchedule as error:
            times, problem = None, str(error)
        return Facts(
            name=self.name,
            deleting=self.deleting,
            held=self.held,
            schedule=times,
            problem=problem,
            served=cluster.served,
            node_set=cluster.exists,
            synced=nodes,
            budget=1 if len(nodes) == len(cluster.wanted) else 0,
            paused=tuple(Paused(SET, paused[key].pod_candidate) for _ in [0] if key in paused),
            others=tuple(others_down(paused, key, NAMESPACE)),
            pod_gone=bool(pod) and pod not in cluster.pods,
            wanted=not pod or not cluster.exists or pod in cluster.wanted,
            back=pod in cluster.synced,
            without_class=cluster.without_class,
            height=cluster.heights.get(pod, 0),
            made=None if idle else self._made(),
            kept=tuple(self._kept()),
        )

    def _made(self) -> Made | None:
        last = self.status.last_snapshot
        if last is None or last.scheduled_at != self.status.scheduled_at or not self.cluster.served:
            return None
        copy = self.cluster.copies.get(last.name)
        if copy is None:
            return None
        holder = "" if copy.source == self.name else copy.source
        return Made(holder, copy.ready, copy.error, copy.status)

    def _kept(self) -> Iterable[Kept]:
        for name, copy in self.cluster.copies.items():
            if copy.source == self.name and self.cluster.served:
                yield Kept(
                    name,
                    copy.ready,
                    copy.error is not None,
                    copy.made_at,
                    copy.made_at if copy.ready or copy.cut else None,
                )

    def made_by_us(self) -> list[str]:
        """Its snapshots that are there."""
        return [name for name, copy in self.cluster.copies.items() if copy.source == self.name]

    def decide(self) -> Step:
        """Read facts anew until they are about the status that is decided on."""
        before, effects = self.status, list[Effect]()
        decided = step(self.spec, before, self.facts(), self.cluster.now)
        while decided.again:
            effects += decided.effects
            self.status = decided.status
            decided = step(self.spec, self.status, self.facts(), self.cluster.now)
        self.status = before
        return replace(decided, effects=(*effects, *decided.effects))

    def write(self, decided: Step) -> None:
        """Through JSON, as the server keeps it."""
        wire = decided.status.model_dump_json(by_alias=True, exclude_none=True)
        self.status = ScheduledVolumeSnapshotStatus.model_validate_json(wire)

    def do(self, effect: Effect) -> bool:
        """Carry an effect out. False where another node is down."""
        self.did.append(effect)
        cluster, key = self.cluster, pause_key(NAMESPACE, self.name)
        match effect:
            case Hold():
                self.held = self.held or not self.deleting
            case Release():
                self.held = False
                self.gone = self.deleting
            case Pause():
                try:
                    if cluster.exists:
                        pause(key, NAMESPACE, effect.pod, cluster.now)(cluster.status)
                except AnotherIsDown:
                    return False
            case Restore():
                restore(key)(cluster.status)
            case Create() if cluster.served and effect.name not in cluster.copies:
                cluster.copies[effect.name] = Copy(self.name, cluster.now)
                cluster.made.append(effect.name)
            case Delete():
                for name in effect.names:
                    copy = cluster.copies.pop(name, None)
                    assert copy is None or copy.source == self.name
        return True

    def forget(self) -> None:
        """It is gone, and is looked at once more."""
        restore(pause_key(NAMESPACE, self.name))(self.cluster.status)

    def look(self) -> ScheduledVolumeSnapshotStatus:
        """Work until nothing more is to be done."""
        for _ in range(20):
            if self.gone:
                return self.status
            decided = self.decide()
            if not self.deleting:
                self.write(decided)
            done = [self.do(effect) for effect in decided.effects]
            if not done or not all(done):
                return self.status
        raise AssertionError(f"no end in phase {self.status.phase}")
