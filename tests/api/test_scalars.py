"""Durations, quantities and times, as Go reads and writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.api import (
    ApiModel,
    Duration,
    IntOrString,
    Quantity,
    format_duration,
    format_micro_time,
    format_time,
    parse_duration,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("30s", 30),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("-1m", -60),
        ("+5s", 5),
        ("250ms", 0.25),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("1h1m1s1ms", 3661.001),
        ("3000ns", 0.000003),
        ("1.s", 1),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "-", "1", "s", "1x", "1h 30m", "1h30", ".s", "--1s", " 1s", "1d", "1e3s", "١s"]
)
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


def test_a_duration_beyond_int64_nanoseconds_is_refused() -> None:
    with pytest.raises(ValueError, match="292 years"):
        parse_duration("9999999999h")


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=30), "30s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(hours=1), "1h0m0s"),
        (timedelta(hours=1, seconds=1.5), "1h0m1.5s"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(microseconds=1500), "1.5ms"),
        (timedelta(microseconds=7), "7µs"),
        (timedelta(seconds=-90), "-1m30s"),
    ],
)
def test_durations_are_written(span: timedelta, text: str) -> None:
    assert format_duration(span) == text


@given(st.timedeltas(timedelta(days=-90_000), timedelta(days=90_000)))
def test_a_written_duration_reads_back(span: timedelta) -> None:
    assert parse_duration(format_duration(span)) == span


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", "2"),
        ("500m", "0.5"),
        ("1.5Gi", str(3 * 2**29)),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("12E", "12000000000000000000"),
        ("-3u", "-0.000003"),
        (".5", "0.5"),
        ("5.", "5"),
    ],
)
def test_quantities_have_exact_values_and_keep_their_text(text: str, value: str) -> None:
    quantity = Quantity(text)
    assert quantity.value == Decimal(value)
    assert quantity == text


@pytest.mark.parametrize(
    "text", ["12.68557864e1830304", "1e-1830304", "1e999999", f"1e{'9' * 5000}", "9" * 5000, "1e31"]
)
def test_a_quantity_that_no_server_holds_is_out_of_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'[^']{1,41}' is out of range$"):
        _ = Quantity(text).value
    assert Quantity("1e30").value == Decimal("1e30")
    assert Quantity("0e999999").value == 0


class Holder(ApiModel):
    timeout: Duration | None = None
    amount: Quantity | None = None
    port: IntOrString | None = None


def test_scalars_in_a_model() -> None:
    holder = Holder.model_validate({"timeout": "90s", "amount": "1000m", "port": "http"})
    assert holder.timeout == timedelta(seconds=90)
    assert holder.to_wire() == {"timeout": "1m30s", "amount": "1000m", "port": "http"}
    assert Holder.model_validate({"amount": 2, "port": 80}).to_wire() == {"amount": "2", "port": 80}


@pytest.mark.parametrize("wrong", [{"timeout": "1"}, {"amount": "1 Gi"}, {"amount": True}])
def test_wrong_scalars_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Holder.model_validate(wrong)


def test_times_are_written_in_utc() -> None:
    moment = datetime(2026, 1, 2, 5, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(moment) == "2026-01-02T03:04:05Z"
    assert format_micro_time(moment) == "2026-01-02T03:04:05.678901Z"
    assert parse_time("2026-01-02T03:04:05Z") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_time_without_zone_is_refused() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - the point
    with pytest.raises(ValueError, match="time zone"):
        format_time(naive)
    with pytest.raises(ValueError, match="no time zone"):
        parse_time("2026-01-02T03:04:05")
