"""Maintenance windows: cron, duration, time zones, and the two days on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ctrlruntime.rollout import (
    BadWindow,
    Reason,
    Strategy,
    decide,
    is_open,
    next_opening,
    parse_window,
)
from ctrlruntime.rollout.windows import closing
from tests.rollout.fleet_simulation import fleet

pytestmark = pytest.mark.criterion("RO-2")

HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def opens(text: str, hours: float, now: str, zone: str | None = "Europe/Berlin") -> bool:
    return is_open([parse_window(text, hours * HOUR, zone)], at(now))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-01-10T00:59:59", False),
        ("2026-01-10T01:00", True),
        ("2026-01-10T02:59:59", True),
        ("2026-01-10T03:00", False),
        # In summer the same window is an hour earlier by UTC.
        ("2026-07-10T00:00", True),
        ("2026-07-10T02:00", False),
        # 2:00 is skipped when summer begins: the window opens when the gap ends, for its whole length.
        ("2026-03-29T00:59:59", False),
        ("2026-03-29T01:00", True),
        ("2026-03-29T02:59:59", True),
        ("2026-03-29T03:00", False),
        # 2:00 comes twice when summer ends: the window opens at the first, once.
        ("2026-10-24T23:59:59", False),
        ("2026-10-25T00:00", True),
        ("2026-10-25T01:59:59", True),
        ("2026-10-25T02:00", False),
    ],
)
def test_a_window_opens_by_the_clock_of_its_zone_and_has_its_length(
    now: str, expected: bool
) -> None:
    assert opens("0 2 * * *", 2, now) is expected


def test_a_window_may_be_longer_than_a_day_and_overlap_the_next() -> None:
    assert opens("0 22 * * FRI", 50, "2026-11-22T22:00", None)
    assert not opens("0 22 * * FRI", 50, "2026-11-23T00:00", None)
    assert opens("0 * * * *", 2, "2026-11-22T13:59", None)


def test_the_next_opening_is_the_first_of_all_windows() -> None:
    windows = [parse_window("0 2 * * *", HOUR), parse_window("0 12 * * SUN", HOUR)]
    assert next_opening(windows, at("2026-11-22T03:00")) == at("2026-11-22T12:00")
    assert next_opening([], at("2026-11-22T03:00")) is None


def test_changes_end_with_the_last_of_the_open_windows() -> None:
    windows = [parse_window("0 2 * * *", HOUR), parse_window("30 2 * * *", HOUR)]
    assert closing(windows, at("2026-11-22T02:45")) == at("2026-11-22T03:30")
    assert closing(windows, at("2026-11-22T03:15")) == at("2026-11-22T03:30")
    assert closing(windows, at("2026-11-22T03:30")) is None


@pytest.mark.parametrize(
    ("schedule", "duration", "zone", "field"),
    [
        ("0 2 * *", HOUR, None, "schedule"),
        ("@every 1h", HOUR, None, "schedule"),
        ("0 2 * * *", timedelta(0), None, "duration"),
        ("0 2 * * *", HOUR, "Europe/Nowhere", "timeZone"),
    ],
)
def test_what_is_no_window_names_its_field(
    schedule: str, duration: timedelta, zone: str | None, field: str
) -> None:
    with pytest.raises(BadWindow, match=f"^{field}"):
        parse_window(schedule, duration, zone)


def test_changes_wait_for_the_window_and_report_when_it_opens() -> None:
    strategy = Strategy(windows=(parse_window("0 2 * * *", HOUR, "Europe/Berlin"),))
    members = list(fleet(3, failed=1).values())
    closed = decide("v2", members, strategy, at("2026-10-25T03:00"))
    assert not closed.changes
    assert closed.look_again == at("2026-10-26T01:00")
    assert {item.reason for item in closed.waiting.values()} == {Reason.WINDOW}
    assert closed.blocked_by is not None
    assert closed.blocked_by.until == at("2026-10-26T01:00")
    opened = decide("v2", members, strategy, at("2026-10-26T01:00"))
    assert len(opened.changes) == 3
