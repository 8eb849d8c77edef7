"""The collector rests while lists are read, then looks only at what came later."""

import gc
from collections.abc import Iterator

import pytest

from ctrlruntime.cache.gc import Collector, CollectorOptions


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


def test_off_while_listing_then_frozen_with_high_thresholds_then_as_before() -> None:
    before = gc.get_threshold()
    pauses: list[tuple[float, int]] = []
    collector = Collector(on_pause=lambda seconds, generation: pauses.append((seconds, generation)))
    collector.listing()
    assert not gc.isenabled()
    kept = [[number] for number in range(1000)]
    collector.listed()
    assert gc.isenabled()
    assert gc.get_freeze_count() >= len(kept)
    assert gc.get_threshold() == (100_000, 50, 1000)
    assert [generation for _, generation in pauses] == [2]
    collector.restore()
    collector.restore()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert len(pauses) == 1


def test_it_can_be_left_alone() -> None:
    before = gc.get_threshold()
    collector = Collector(CollectorOptions(enabled=False))
    collector.listing()
    collector.listed()
    collector.restore()
    assert gc.isenabled()
    assert gc.get_threshold() == before
