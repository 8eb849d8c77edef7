"""Schedules: expressions, time zones, what was missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlruntime.schedule import BadSchedule, parse

START = datetime(2020, 1, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        ("*/15 * * * *", None, "2026-01-01T00:00:30", "2026-01-01T00:15"),
        ("0 0 * * *", "Europe/Berlin", "2026-01-01T12:00", "2026-01-01T23:00"),
        ("0 0 29 2 *", None, "2026-01-01T00:00", "2028-02-29T00:00"),
        ("0 6 1-7 * MON", None, "2026-01-01T00:00", "2026-01-01T06:00"),
        ("@yearly", None, "2026-05-01T00:00", "2027-01-01T00:00"),
        ("@annually", None, "2026-05-01T00:00", "2027-01-01T00:00"),
        ("@monthly", None, "2026-05-01T00:00", "2026-06-01T00:00"),
        ("@weekly", None, "2026-11-21T00:00", "2026-11-22T00:00"),
        ("@daily", "America/New_York", "2026-07-01T12:00", "2026-07-02T04:00"),
        ("@midnight", None, "2026-07-01T12:00", "2026-07-02T00:00"),
        ("@hourly", "Asia/Kolkata", "2026-07-01T12:00", "2026-07-01T12:30"),
        # Summer begins: 2:30 does not exist, so it is due when the gap ends, once.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-29T01:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00", "2026-03-30T00:30"),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-29T01:00", "2026-03-30T00:00"),
        ("0 * * * *", "Europe/Berlin", "2026-03-29T00:00", "2026-03-29T01:00"),
        # Summer ends: 2:30 comes twice and is due once; what is due every hour is due in both.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T00:30"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30", "2026-10-26T01:30"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10", "2026-10-26T01:30"),
        ("0 * * * *", "Europe/Berlin", "2026-10-25T00:00", "2026-10-25T01:00"),
        ("0 * * * *", "Europe/Berlin", "2026-10-25T01:00", "2026-10-25T02:00"),
    ],
)
def test_the_next_time(expression: str, zone: str | None, after: str, expected: str) -> None:
    assert parse(expression, zone).next(at(after), START) == at(expected)


def test_an_interval_counts_from_the_start() -> None:
    start = at("2026-01-01T00:00:30")
    every = parse("@every 90m")
    assert every.next(start, start) == at("2026-01-01T01:30:30")
    assert every.next(at("2026-01-01T01:30:30"), start) == at("2026-01-01T03:00:30")
    assert every.latest(start, at("2026-01-01T07:00"), start) == at("2026-01-01T06:00:30")
    assert every.latest(start, at("2026-01-01T01:30:29"), start) is None


@pytest.mark.parametrize(
    ("expression", "after", "until", "expected"),
    [
        ("* * * * *", "2020-01-01T00:00", "2026-01-01T00:00:59", "2026-01-01T00:00"),
        ("0 0 * * *", "2026-01-01T00:00", "2026-01-01T23:59:59", None),
        ("0 0 * * *", "2026-01-01T00:00", "2026-01-09T12:00", "2026-01-09T00:00"),
        ("0 0 29 2 *", "2021-01-01T00:00", "2026-01-01T00:00", "2024-02-29T00:00"),
        ("0 0 * * *", "2026-01-09T12:00", "2026-01-01T00:00", None),
    ],
)
def test_of_what_was_missed_the_last(
    expression: str, after: str, until: str, expected: str | None
) -> None:
    found = parse(expression).latest(at(after), at(until), START)
    assert found == (None if expected is None else at(expected))


@settings(deadline=None, max_examples=60)
@given(
    expression=st.sampled_from(
        ["*/7 * * * *", "30 2 * * *", "0 */5 * * *", "@every 77m", "5 3 * * 0"]
    ),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"]),
    after=st.integers(0, 400 * 24 * 60),
    length=st.integers(0, 10 * 24 * 60),
)
def test_the_last_is_what_going_on_from_each_to_the_next_comes_to(
    expression: str, zone: str, after: int, length: int
) -> None:
    schedule = parse(expression, zone)
    begin = START + timedelta(minutes=after)
    end = begin + timedelta(minutes=length)
    last, moment = None, schedule.next(begin, START)
    while moment is not None and moment <= end:
        assert last is None or moment > last
        last, moment = moment, schedule.next(moment, START)
    assert schedule.latest(begin, end, START) == last


@pytest.mark.parametrize(
    ("expression", "zone", "says"),
    [
        ("", None, "0 fields"),
        ("* * * *", None, "4 fields"),
        ("0 * * * * *", None, "6 fields"),
        ("TZ=UTC 0 * * * *", None, "the time zone has a field of its own"),
        ("61 * * * *", None, "the field for the minute"),
        ("0 0 31 2 *", None, "the field for the day"),
        ("@reboot", None, "@every <duration>"),
        ("@every", None, "not a duration"),
        ("@every 5s", None, "one minute or longer"),
        ("@every -5m", None, "one minute or longer"),
        ("@daily", "Mars/Olympus", "Europe/Berlin"),
        ("@daily", "../../etc/passwd", "Europe/Berlin"),
        ("@daily", "Europe", "Europe/Berlin"),
    ],
)
def test_a_bad_one_reports_what_to_write(expression: str, zone: str | None, says: str) -> None:
    with pytest.raises(BadSchedule, match=says):
        parse(expression, zone)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="0123456789*/,-#LW @evrymonMON\u00b2", max_size=24))
def test_nothing_but_a_bad_schedule_is_raised(text: str) -> None:
    try:
        schedule = parse(text)
    except BadSchedule:
        return
    moment = schedule.next(START, START)
    assert moment is None or moment > START
