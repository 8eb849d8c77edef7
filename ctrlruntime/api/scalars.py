"""Scalar types of Kubernetes APIs: times, durations, quantities, int-or-string, raw objects."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic_core import core_schema

__all__ = [
    "Duration",
    "EmbeddedResource",
    "Int32",
    "IntOrString",
    "MicroTime",
    "Quantity",
    "RawExtension",
    "Time",
    "format_duration",
    "format_micro_time",
    "format_time",
    "parse_duration",
    "parse_time",
]


def format_time(value: datetime) -> str:
    """RFC 3339 in UTC to the second, as metav1.Time writes it. Raises ValueError if naive."""
    if value.tzinfo is None:
        raise ValueError("a time needs a time zone; use datetime.now(UTC)")
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(value: datetime) -> str:
    """RFC 3339 in UTC to the microsecond, as metav1.MicroTime writes it. Raises ValueError if naive."""
    if value.tzinfo is None:
        raise ValueError("a time needs a time zone; use datetime.now(UTC)")
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """Return the moment that an RFC 3339 text names. Raises ValueError if it is none or has no zone."""
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return value


def time_or_none(text: object) -> datetime | None:
    """Return the moment that an RFC 3339 text with a zone names; None for anything else."""
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None


_DATE_TIME = WithJsonSchema({"type": "string", "format": "date-time"})

Time = Annotated[AwareDatetime, PlainSerializer(format_time, when_used="json"), _DATE_TIME]
"""A moment to the second (metav1.Time)."""

MicroTime = Annotated[
    AwareDatetime, PlainSerializer(format_micro_time, when_used="json"), _DATE_TIME
]
"""A moment to the microsecond (metav1.MicroTime)."""


_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> timedelta:
    """Return a duration as Go's time.ParseDuration reads it: ``30s``, ``1h30m``, ``-1.5h``, ``0``.

    Rounded to the microsecond. Raises ValueError for anything else, a missing unit included.
    """
    error = ValueError(
        f"{text!r} is not a duration; expected for example 30s, 1h30m or 250ms "
        "(units h, m, s, ms, us, ns)"
    )
    body = text[1:] if text[:1] in {"+", "-"} else text
    if body == "0":
        return timedelta(0)
    total, position = Decimal(0), 0
    while position < len(body):
        part = _DURATION_PART.match(body, position)
        if part is None:
            raise error
        total += Decimal(part[1]) * _UNITS_NS[part[2]]
        position = part.end()
    if position == 0:
        raise error
    if total > 2**63 - 1:
        raise ValueError(f"{text!r} is longer than a duration can be (about 292 years)")
    span = timedelta(microseconds=int((total / 1000).to_integral_value()))
    return -span if text[0] == "-" else span


def format_duration(value: timedelta) -> str:
    """Return a duration as Go's Duration.String writes it: ``1h30m0s``, ``250ms``, ``0s``."""
    micros = value // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if micros == 0:
        return "0s"
    if micros < 1_000:
        return f"{sign}{micros}µs"
    if micros < 1_000_000:
        return f"{sign}{_decimal(micros, 1_000)}ms"
    hours, rest = divmod(micros, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    text = f"{_decimal(rest, 1_000_000)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"


def _read_duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


_DURATION_PATTERN = r"^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"

Duration = Annotated[
    timedelta,
    BeforeValidator(_read_duration),
    PlainSerializer(format_duration, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": _DURATION_PATTERN}),
]
"""A duration, written and read as Go does (metav1.Duration); a timedelta in Python."""


QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]+))?"
)
_SUFFIXES = {
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
}


_LARGEST_EXPONENT = 30
"""The API server caps quantities at 2^63-1; far beyond it each use as an integer takes seconds."""


def _shortened(text: str) -> str:
    return repr(str(text) if len(text) <= 40 else f"{text[:40]}…")


class Quantity(str):
    """An amount such as ``500m``, ``1.5Gi`` or ``2``: the text as given, and its exact value.

    Quantities are compared by ``value``; the text is kept, so that ``1000m`` is not rewritten.
    """

    __slots__ = ()

    @property
    def value(self) -> Decimal:
        """The exact amount in the base unit. Raises ValueError if the text is not a quantity."""
        match = _QUANTITY.fullmatch(self)
        if match is None:
            raise ValueError(f"{str(self)!r} is not a quantity; expected for example 500m or 1Gi")
        try:
            number = Decimal(match[1])
            scaled = number * _SUFFIXES[match[2]] if match[2] else number.scaleb(int(match[3] or 0))
        except (ArithmeticError, ValueError) as error:
            raise ValueError(f"{_shortened(self)} is out of range") from error
        if number and (not scaled or abs(scaled.adjusted()) > _LARGEST_EXPONENT):
            raise ValueError(f"{_shortened(self)} is out of range")
        return scaled

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> dict[str, Any]:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": True,
        }

    @classmethod
    def _validate(cls, value: object) -> Quantity:
        if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
            raise ValueError("a quantity is a string or a number")
        quantity = cls(value)
        _ = quantity.value
        return quantity


IntOrString = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A number or a string, such as a port by number or name, or ``25%``."""

RawExtension = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""Any JSON object, kept as it is."""

EmbeddedResource = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
]
"""A whole Kubernetes object: the server checks its apiVersion, kind and metadata."""

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1, json_schema_extra={"format": "int32"})]
"""A 32-bit number; a plain int is a 64-bit one."""
