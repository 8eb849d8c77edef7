"""Metrics of self-healing: sums over all sets, with no series per set."""

from collections.abc import Hashable

from prometheus_client import CollectorRegistry, Counter, Gauge


class SelfHealMetrics:
    """The series in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "cosmos_autoscale_requests_total",
            "Larger disks that were asked for.",
            registry=registry,
        )
        self.failures = Counter(
            "cosmos_autoscale_failures_total",
            "Disks that should grow and could not be asked for, or cannot grow.",
            registry=registry,
        )
        self.restarts = Counter(
            "cosmos_drift_restarts_total",
            "Pods of nodes behind the others that were deleted.",
            registry=registry,
        )
        self.hang_restarts = Counter(
            "cosmos_unresponsive_restarts_total",
            "Pods of nodes that did not answer any more that were deleted.",
            registry=registry,
        )
        self._ceilings: dict[Hashable, int] = {}
        self.at_ceiling = Gauge(
            "cosmos_autoscale_disks_at_ceiling",
            "Disks that should grow and are as large as they may become.",
            registry=registry,
        )

    def show_ceilings(self, key: Hashable, disks: int) -> None:
        """How many disks of a set are at their ceiling; 0 also for a set that is gone."""
        if disks:
            self._ceilings[key] = disks
        else:
            self._ceilings.pop(key, None)
        self.at_ceiling.set(sum(self._ceilings.values()))
