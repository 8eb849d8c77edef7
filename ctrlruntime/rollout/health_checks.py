"""Checks of health outside of the members of a rollout, as kinds have them in spec and status."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from ctrlruntime.api import ApiModel, Int32, ListMap, Time
from ctrlruntime.api.markers import exactly_one_of

__all__ = [
    "HealthCheck",
    "HealthCheckState",
    "HealthCheckStatus",
    "HealthCheckStatuses",
    "HealthChecks",
    "HookCheck",
    "PrometheusCheck",
    "health_check_problems",
]

Url = Annotated[str, Field(pattern="^https?://", max_length=1024)]


class PrometheusCheck(ApiModel):
    """A query that finds nothing while all is well, like the expression of an alert."""

    url: Url
    """Where Prometheus is. The manager has to allow it: `--health-check-url`."""
    query: Annotated[str, Field(min_length=1, max_length=4096)]
    """PromQL. The check fails while the answer has a sample, or is a scalar other than 0."""


class HookCheck(ApiModel):
    """An address that answers whether all is well."""

    url: Url
    """It gets a POST with JSON: namespace, and either rollout and targetVersion or template and targetRevision. It
    answers 200 with JSON: healthy, true or false. The manager has to allow it: `--health-check-url`."""


class HealthCheck(ApiModel, rules=(exactly_one_of("prometheus", "hook"),)):
    """Health that no status of a member shows, such as a rate of errors."""

    name: Annotated[
        str, Field(min_length=1, max_length=63, pattern="^[A-Za-z0-9]([-A-Za-z0-9.]*)$")
    ]
    """Its name."""
    prometheus: PrometheusCheck | None = None
    """A query."""
    hook: HookCheck | None = None
    """An address that answers."""
    period_seconds: Annotated[Int32, Field(ge=1, le=3600)] = 30
    """How often it is evaluated while members change or soak. The soak should be longer."""
    timeout_seconds: Annotated[Int32, Field(ge=1, le=60)] = 10
    """How long an answer may take."""


HealthChecks = Annotated[list[HealthCheck], ListMap("name"), Field(max_length=8)]


class HealthCheckState(StrEnum):
    """The last result of a check."""

    HEALTHY = "Healthy"
    FAILING = "Failing"
    UNKNOWN = "Unknown"
    """It has not been evaluated, or gave no usable answer."""


class HealthCheckStatus(ApiModel):
    """A check of health, as of its last change of state."""

    name: str
    """Its name."""
    state: HealthCheckState = HealthCheckState.UNKNOWN
    """The result."""
    message: str = ""
    """What it answered, or why there is no result."""
    failed_at: Time | None = None
    """When it failed after members had changed: this halts the rollout of `failedVersion`, until it is resumed."""
    failed_version: str = ""
    """The version or revision that was rolled out then."""


HealthCheckStatuses = Annotated[list[HealthCheckStatus], ListMap("name")]


def health_check_problems(checks: Sequence[HealthCheck], field: str) -> list[str]:
    """Return what is wrong with addresses that the schema lets in, one sentence each, with the place below `field`."""
    found = []
    for number, check in enumerate(checks):
        for kind, item in (("prometheus", check.prometheus), ("hook", check.hook)):
            if item is not None and not _is_address(item.url):
                place = f"{field}[{number}].{kind}.url"
                found.append(
                    f"{place}: write an address such as https://prometheus:9090, without user and fragment"
                )
    return found


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    hostname = parts.hostname or ""
    plain = not parts.username and not parts.password and not parts.fragment
    return bool(hostname) and has_port and plain and not any(each.isspace() for each in url)
