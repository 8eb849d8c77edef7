"""What `make bench-scale` accepts, and what it makes."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.scale.bounds import ScaleFigures, exceeded
from benchmarks.scale.dead_cluster import percentile
from benchmarks.scale.tenants import has_workload, numbers_of

GOOD: dict[str, Any] = {
    "planes": 2,
    "objects": 1000,
    "writes": 3600,
    "bytes_per_object": 6144,
    "restart_events": 4,
    "restart_cpu_ratio": 0.4,
    "hub_cache_share": 0.6,
    "dead_cluster_p99_ratio": 2.0,
}


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("writes", 3601),
        ("steady_requests", 1),
        ("workload_requests_on_planes", 1),
        ("bytes_per_object", 6145),
        ("restart_writes", 1),
        ("restart_events", 5),
        ("restart_cpu_ratio", 0.41),
        ("hub_cache_share", 0.61),
        ("dead_cluster_p99_ratio", 2.01),
        ("dead_cluster_lost", 1),
        ("lost", 1),
    ],
)
def test_each_figure_over_its_bound_is_named(figure: str, value: float) -> None:
    assert exceeded(ScaleFigures(**GOOD)) == []
    (found,) = exceeded(ScaleFigures(**GOOD | {figure: value}))
    assert found.startswith(f"{figure} is {value}, ")


def test_every_tenant_is_on_one_data_plane_and_workloads_are_spread_evenly() -> None:
    parts = [list(numbers_of(plane, 2, 0, 10_000)) for plane in (0, 1)]
    assert sorted([*parts[0], *parts[1]]) == list(range(10_000))
    assert [sum(map(has_workload, part)) for part in parts] == [50, 50]


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([float(each) for each in range(100)], 0.99) == 99.0
    assert percentile([1.0], 0.99) == 1.0
