"""Metrics of regular snapshots: sums over all of them, with no series for each."""

from collections import Counter as Tally
from collections.abc import Hashable

from prometheus_client import CollectorRegistry, Counter, Gauge

from apis.cosmos import ScheduledVolumeSnapshotStatus, SnapshotPhase

READY = "ready"
FAILED = "failed"


class SnapshotMetrics:
    """The series of all ScheduledVolumeSnapshots in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._known: dict[Hashable, tuple[SnapshotPhase, bool]] = {}
        self.phases = Gauge(
            "cosmos_snapshot_schedules",
            "ScheduledVolumeSnapshots, by phase of the state machine.",
            ("phase",),
            registry=registry,
        )
        self.failing = Gauge(
            "cosmos_snapshot_schedules_failing",
            "ScheduledVolumeSnapshots whose last snapshot failed.",
            registry=registry,
        )
        self.results = Counter(
            "cosmos_snapshots_total",
            "Snapshots that ended, by result.",
            ("result",),
            registry=registry,
        )
        for phase in SnapshotPhase:
            self.phases.labels(phase.value).set(0)

    def show(
        self,
        key: Hashable,
        before: ScheduledVolumeSnapshotStatus,
        after: ScheduledVolumeSnapshotStatus,
    ) -> None:
        """Where one stands now, and what ended since."""
        ended = _ended(after)
        if ended is not None and ended != _ended(before):
            self.results.labels(ended[1]).inc()
        failed = ended is not None and ended[1] == FAILED
        state = (after.phase or SnapshotPhase.WAITING_FOR_NEXT, failed)
        if self._known.get(key) != state:
            self._known[key] = state
            self._sum()

    def forget(self, key: Hashable) -> None:
        """Forget one that is gone."""
        if self._known.pop(key, None) is not None:
            self._sum()

    def _sum(self) -> None:
        phases = Tally(phase for phase, _ in self._known.values())
        for phase in SnapshotPhase:
            self.phases.labels(phase.value).set(phases[phase])
        self.failing.set(sum(failed for _, failed in self._known.values()))


def _ended(status: ScheduledVolumeSnapshotStatus) -> tuple[str, str] | None:
    """Name and result of the last snapshot, if it has ended."""
    last = status.last_snapshot
    if last is None or not (last.failed or (last.status or {}).get("readyToUse")):
        return None
    return last.name, FAILED if last.failed else READY
