"""Metrics of self-healing: sums over all sets, with no series per set."""

from prometheus_client import CollectorRegistry, Counter


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
