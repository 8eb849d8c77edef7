"""Metrics of the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge

from apis.fleet import Reason, TargetNamespace, TargetResult

_DOWN = frozenset({Reason.UNREACHABLE, Reason.FORBIDDEN})


def is_up(reason: str) -> bool:
    """Return whether the data plane of a target namespace answers, by the reason of its entry."""
    return reason not in _DOWN


class FleetMetrics:
    """How many stacks are in which state."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._targets = Gauge(
            "fleet_target_namespaces",
            "Target namespaces, by result and reason.",
            ["result", "reason"],
            registry=registry,
        )
        self._up = Gauge(
            "fleet_data_plane_up",
            "Whether the data plane of a target namespace answers: 0 if it cannot be reached or refuses the credentials.",
            ["namespace"],
            registry=registry,
        )
        self._namespaces = Gauge(
            "fleet_hub_namespaces",
            "Namespaces of the hub, of which 10,000 are the most that are tested.",
            registry=registry,
        )

    def observe(self, entries: Sequence[TargetNamespace], *, hub_namespaces: int) -> None:
        """Take over the entries of the status."""
        counts = Counter((entry.result, entry.reason) for entry in entries)
        self._targets.clear()
        for result in TargetResult:
            for reason in Reason:
                if (result is TargetResult.SUCCESS) == (reason is Reason.SUCCESSFUL_DEPLOYMENT):
                    count = counts.get((result, reason.value), 0)
                    self._targets.labels(result.value, reason.value).set(count)
        self._up.clear()
        for entry in entries:
            self._up.labels(entry.name).set(1 if is_up(entry.reason) else 0)
        self._namespaces.set(hub_namespaces)
