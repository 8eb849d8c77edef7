"""Which events become objects: requirement HE-05 and the pure part of HE-06."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ctrlruntime.events.correlator import COMBINED, Correlator, EventOptions, Occurrence, Series

POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web", "uid": "u1"}


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def correlator(clock: Clock) -> Correlator:
    return Correlator("tests", "tests-host", clock, clock.now, EventOptions())


def occurrence(note: str = "pulled", reason: str = "Pulled", name: str = "web") -> Occurrence:
    return Occurrence(
        regarding={**POD, "name": name},
        type="Normal",
        reason=reason,
        action="Pulling",
        note=note,
    )


def observe(correlator: Correlator, occurrence: Occurrence) -> Series | None:
    """Observe, and have what is to be written written."""
    series = correlator.observe(occurrence)
    if series is not None:
        correlator.wrote(series, series.count)
    return series


@pytest.mark.criterion("HE-05")
def test_equal_events_are_counted_not_doubled(correlator: Correlator) -> None:
    written = [observe(correlator, occurrence()) for _ in range(100)]
    first, second, *rest = written
    assert first is not None
    assert second is first
    assert rest == [None] * 98
    assert first.count == 100
    assert correlator.spam == 0


@pytest.mark.criterion("HE-05")
def test_the_tenth_similar_message_in_ten_minutes_begins_to_merge(
    correlator: Correlator, clock: Clock
) -> None:
    created: list[Series] = []
    for index in range(40):
        clock.seconds += 1
        series = observe(correlator, occurrence(f"port {index}"))
        if series is not None and series.count == 1:
            created.append(series)
    assert len(created) == 10
    assert created[-1].manifest["note"] == f"{COMBINED}port 9"
    assert created[-1].count == 31


@pytest.mark.criterion("HE-05")
def test_similar_messages_spread_out_are_not_merged(correlator: Correlator, clock: Clock) -> None:
    for index in range(20):
        clock.seconds += 301
        series = observe(correlator, occurrence(f"port {index}"))
        assert series is not None
        assert not series.manifest["note"].startswith(COMBINED)


@pytest.mark.criterion("HE-05")
def test_a_burst_above_25_for_one_object_is_dropped_and_counted(
    correlator: Correlator, clock: Clock
) -> None:
    written = [observe(correlator, occurrence(reason=f"Reason{index}")) for index in range(40)]
    assert sum(series is not None for series in written) == 25
    assert correlator.spam == 15
    assert observe(correlator, occurrence(name="another")) is not None
    clock.seconds += 300
    assert observe(correlator, occurrence(reason="Later")) is not None
    assert observe(correlator, occurrence(reason="TooSoon")) is None


@pytest.mark.criterion("HE-06")
def test_a_series_is_refreshed_at_30_minutes_if_it_grew(
    correlator: Correlator, clock: Clock
) -> None:
    series = observe(correlator, occurrence())
    observe(correlator, occurrence())
    assert series is not None
    for _ in range(29):
        clock.seconds += 60
        correlator.observe(occurrence())
        assert correlator.due() == []
    clock.seconds += 60
    correlator.observe(occurrence())
    assert correlator.due() == [series]
    correlator.wrote(series, series.count)
    assert correlator.due() == []


@pytest.mark.criterion("HE-06")
def test_a_series_ends_after_six_minutes_of_silence(correlator: Correlator, clock: Clock) -> None:
    series = observe(correlator, occurrence())
    observe(correlator, occurrence())
    correlator.observe(occurrence())
    assert series is not None
    clock.seconds += 361
    assert correlator.due() == [series]
    assert series.for_patch()["series"]["count"] == 3
    again = observe(correlator, occurrence())
    assert again is not series
    assert again is not None
    assert again.count == 1


def test_an_event_that_happened_once_costs_one_request(
    correlator: Correlator, clock: Clock
) -> None:
    observe(correlator, occurrence())
    for _ in range(100):
        clock.seconds += 60
        assert correlator.due() == []


@pytest.mark.criterion("HE-07")
def test_events_of_cluster_scoped_objects_go_to_default(correlator: Correlator) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u2"}
    series = correlator.observe(
        Occurrence(regarding=node, type="Normal", reason="Up", action="Start", note="")
    )
    assert series is not None
    assert series.namespace == "default"
    assert series.manifest["metadata"]["namespace"] == "default"


def test_long_notes_are_shortened_and_memory_is_bounded(correlator: Correlator) -> None:
    series = correlator.observe(occurrence("ü" * 2000))
    assert series is not None
    assert len(series.manifest["note"].encode()) <= 1024
    for index in range(6000):
        correlator.observe(occurrence(name=f"pod-{index}"))
    assert len(correlator._series.items) <= 4096
    assert len(correlator._buckets.items) <= 4096


@pytest.mark.criterion("LV-8")
def test_the_burst_limit_of_events_holds_after_any_silence(
    correlator: Correlator, clock: Clock
) -> None:
    for silence in range(3):
        clock.seconds += 1e7
        sent = [observe(correlator, occurrence(reason=f"{silence}-{n}")) for n in range(40)]
        assert sum(series is not None for series in sent) == 25


@pytest.mark.criterion("LV-8")
def test_the_burst_limit_of_events_admits_one_more_after_each_refill(
    correlator: Correlator, clock: Clock
) -> None:
    for number in range(40):
        observe(correlator, occurrence(reason=f"first-{number}"))
    for step in range(5):
        clock.seconds += 300
        sent = [observe(correlator, occurrence(reason=f"{step}-{n}")) for n in range(3)]
        assert [series is not None for series in sent] == [True, False, False]


@pytest.mark.criterion("LV-8")
def test_an_event_series_expires_without_being_looked_after(
    correlator: Correlator, clock: Clock
) -> None:
    """Nothing has called `due` since: an equal event is a new object all the same."""
    first = observe(correlator, occurrence())
    observe(correlator, occurrence())
    clock.seconds += 361
    again = observe(correlator, occurrence())
    assert again is not None
    assert again is not first
    assert again.count == 1


@pytest.mark.criterion("LV-8")
def test_an_event_series_expires_by_silence_not_by_age(
    correlator: Correlator, clock: Clock
) -> None:
    series = observe(correlator, occurrence())
    for _ in range(20):
        clock.seconds += 359
        correlator.observe(occurrence())
        correlator.due()
    assert series is not None
    assert series.count == 21


@pytest.mark.criterion("LV-8")
def test_an_event_series_that_has_expired_is_written_once_and_forgotten(
    correlator: Correlator, clock: Clock
) -> None:
    series = observe(correlator, occurrence())
    for _ in range(3):
        observe(correlator, occurrence())
    clock.seconds += 361
    assert correlator.due() == [series]
    assert correlator.due() == []
    assert len(correlator._series.items) == 0
