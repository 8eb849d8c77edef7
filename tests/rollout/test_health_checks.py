"""Health checks of rollouts: what results mean, which addresses are allowed, and what is watched. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from yarl import URL

from ctrlruntime.json import Json
from ctrlruntime.queue import Request
from ctrlruntime.rollout import Change, ChangeKind, Health, Member, OnHalt, Strategy, decide
from ctrlruntime.rollout.health import (
    Assessment,
    CheckedTarget,
    CheckResult,
    NoHealthEvaluator,
    assess,
    evaluate_health,
    with_health,
)
from ctrlruntime.rollout.health_checker import is_allowed
from ctrlruntime.rollout.health_checks import (
    HealthCheck,
    HealthCheckState,
    HealthCheckStatus,
    health_check_problems,
)

pytestmark = pytest.mark.criterion("RO-FLEET")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NEW = "v2"
HEALTHY, FAILING, UNKNOWN = HealthCheckState


def check_of(url: str = "http://h", **more: Json) -> HealthCheck:
    fields = {"name": "errors", "hook": {"url": url}, "periodSeconds": 10, **more}
    return HealthCheck.model_validate(fields)


CHECKS = (check_of(),)


def result(
    state: HealthCheckState, age: float = 0.0, text: str = "7 errors"
) -> dict[str, CheckResult]:
    return {"errors": CheckResult(state, text, NOW - timedelta(seconds=age))}


def assessed(
    results: dict[str, CheckResult],
    before: list[HealthCheckStatus] | None = None,
    version: str = NEW,
    now: datetime = NOW,
    *,
    watched: bool = True,
    resumed_at: datetime | None = None,
) -> Assessment:
    return assess(
        CHECKS, version, before or [], results, now, watched=watched, resumed_at=resumed_at
    )


@pytest.mark.parametrize(
    ("state", "watched", "halts", "holds"),
    [
        (HEALTHY, True, False, False),
        (HEALTHY, False, False, False),
        (FAILING, True, True, False),
        (FAILING, False, False, True),
        (UNKNOWN, True, False, True),
        (UNKNOWN, False, False, True),
    ],
)
def test_what_a_result_means(
    state: HealthCheckState, watched: bool, halts: bool, holds: bool
) -> None:
    found = assessed(result(state), watched=watched)
    assert (bool(found.halt), found.hold is not None) == (halts, holds)


def test_a_result_that_is_too_old_is_none() -> None:
    found = assessed(result(HEALTHY, 31))
    assert found.hold is not None
    assert "too old" in found.hold.message
    assert assessed(result(HEALTHY, 30)).hold is None


def test_a_failure_counts_for_its_target_until_it_is_resumed() -> None:
    healthy, later = result(HEALTHY, text="0 errors"), NOW + timedelta(seconds=5)
    first = assessed(result(FAILING)).status
    recovered = assessed(healthy, first, now=later, watched=False)
    assert recovered.halt == "the health check 'errors' failed at 2026-03-01T12:00:00Z"
    assert not assessed(healthy, first, "9.9.9", later, watched=False).halt
    resumed = assessed(healthy, first, now=later, resumed_at=later)
    assert not resumed.halt
    assert resumed.hold is None


def test_a_changed_value_within_one_state_writes_nothing() -> None:
    first = assessed(result(FAILING)).status
    assert assessed(result(FAILING, text="8 errors"), first).status == first
    held = assessed(result(FAILING), watched=False)
    again = assessed(result(FAILING, text="8 errors"), held.status, watched=False)
    assert again.hold == held.hold


def test_the_status_has_the_present_reason_for_there_being_no_result() -> None:
    first = assessed({}).status
    assert first[0].message == "it has no result yet"
    assert assessed(result(UNKNOWN, text="no answer"), first).status[0].message == "no answer"


def changed(at: datetime) -> Member:
    change = Change(ChangeKind.ROLLOUT, at, "v1")
    return Member(name="a", version=NEW, health=Health.READY, health_since=at, change=change)


def test_checks_watch_changed_members_of_a_rollout_that_never_halts_by_failures() -> None:
    strategy = Strategy(progress_deadline=timedelta(seconds=60), health_checks=CHECKS)
    decision = decide(NEW, [changed(NOW)], strategy, NOW)
    assert decision.is_complete
    assert decision.watched_until == NOW + timedelta(seconds=60)
    assert decide(NEW, [changed(NOW)], Strategy(), NOW).watched_until is None


@pytest.mark.parametrize("asleep", ["paused", "soaked", "nothing to change", "undone", "no checks"])
def test_nothing_is_evaluated_while_nothing_may_change(asleep: str) -> None:
    at = NOW - timedelta(hours=1) if asleep == "soaked" else NOW
    members = [] if asleep == "nothing to change" else [changed(at)]
    strategy = Strategy(
        health_checks=() if asleep == "no checks" else CHECKS,
        paused=asleep == "paused",
        halt="an undo was requested" if asleep == "undone" else "",
    )
    decision = decide(NEW, members, strategy, NOW)
    found = evaluate_health(
        NoHealthEvaluator(), Request("r"), CheckedTarget(NEW), strategy, decision, [], NOW
    )
    assert found is None


def test_a_failure_halts_and_rolls_back_and_a_missing_result_only_holds() -> None:
    strategy = Strategy(on_halt=OnHalt.ROLLBACK, health_checks=CHECKS)
    members = [changed(NOW), Member(name="b", version="v1", health=Health.READY)]
    halted = decide(NEW, members, with_health(strategy, assessed(result(FAILING))), NOW)
    assert [(item.name, item.version) for item in halted.changes] == [("a", "v1")]
    held = decide(NEW, members, with_health(strategy, assessed(result(UNKNOWN))), NOW)
    assert held.changes == ()
    assert held.waiting["b"].reason == "Health"
    healthy = decide(NEW, members, with_health(strategy, assessed(result(HEALTHY))), NOW)
    assert [(item.name, item.version) for item in healthy.changes] == [("b", NEW)]


@pytest.mark.parametrize(
    ("url", "usable"),
    [
        ("http://prometheus:9090/a?b=c", True),
        ("https://[::1]:9090", True),
        ("http://", False),
        ("http://[::1", False),
        ("http://host:99999", False),
        ("http://user:password@host", False),
        ("http://host#part", False),
        ("http://a host", False),
    ],
)
def test_an_address_that_can_never_be_used_is_named(url: str, usable: bool) -> None:
    found = health_check_problems([check_of(), check_of(url)], "spec.healthChecks")
    if usable:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].startswith("spec.healthChecks[1].hook.url: write an address such as")
        assert "password" not in found[0]


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://prometheus:9090/api/v1/query?query=x", True),
        ("https://prometheus:9090/api", False),
        ("http://prometheus/api", False),
        ("http://prometheus.evil:9090/api", False),
        ("http://user@prometheus:9090/api", False),
        ("https://checks/orders", True),
        ("https://checks/orders/a", True),
        ("https://checks/orders-of-others", False),
        ("https://checks/", False),
    ],
)
def test_what_is_below_an_allowed_address(url: str, allowed: bool) -> None:
    bases = ("http://prometheus:9090", "https://checks/orders/")
    assert is_allowed(URL(url), bases) is allowed
