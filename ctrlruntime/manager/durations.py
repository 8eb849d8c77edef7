"""Histograms that are fed often: a list of counts, rendered for Prometheus when asked for."""

from __future__ import annotations

from bisect import bisect_left

from prometheus_client.core import HistogramMetricFamily


class Durations:
    """A histogram that costs a fraction of a microsecond to feed."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def add(self, other: Durations) -> None:
        """Add what another histogram of the same bounds has counted."""
        self.counts = [
            mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)
        ]
        self.total += other.total

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts as Prometheus wants them."""
        running = 0
        result: list[tuple[str, float]] = []
        for bound, count in zip(self.bounds, self.counts, strict=False):
            running += count
            result.append((repr(float(bound)), float(running)))
        result.append(("+Inf", float(running + self.counts[-1])))
        return result


def add_durations(family: HistogramMetricFamily, labels: list[str], durations: Durations) -> None:
    """Add a histogram to a family."""
    family.add_metric(labels, durations.buckets(), durations.total)
