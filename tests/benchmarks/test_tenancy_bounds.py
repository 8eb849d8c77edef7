"""The bounds of `make bench-tenancy`: each figure beyond its bound is named, and none within."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.tenancy.__main__ import TenancyFigures
from benchmarks.tenancy.bounds import exceeded

GOOD = TenancyFigures(
    rows=1000,
    writes=8100,
    restart_seconds=30.0,
    rss_mib=500.0,
    max_stall_ms=50.0,
    cpu_ratio_to_base=0.7,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("writes", 8101),
        ("steady_requests", 1),
        ("restart_writes", 1),
        ("restart_seconds", 30.1),
        ("rss_mib", 500.1),
        ("max_stall_ms", 50.1),
        ("cpu_ratio_to_base", 0.71),
    ],
)
def test_a_figure_beyond_its_bound_is_named(name: str, value: float) -> None:
    figures = replace(GOOD)
    setattr(figures, name, value)
    found = exceeded(1000, figures)
    assert len(found) == 1
    assert found[0].startswith(name)


def test_figures_at_their_bounds_are_kept() -> None:
    assert exceeded(1000, GOOD) == []
    assert exceeded(10000, replace(GOOD, writes=81000)) == []
