"""Health checks of FleetRollouts: what holds, halts and rolls back, with a server that plays Prometheus and hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from apis.cloud import FleetRollout, FleetRolloutSpec, HealthCheckState
from apis.operations import FrozenSystem
from ctrlruntime.manager import Manager
from internal.cloud.rollouts.health import CheckResult, judge
from internal.cloud.rollouts.health_checker import is_allowed
from internal.cloud.subresources import SUBRESOURCES
from manager.controllers.change_freezes import add_change_freezes
from manager.controllers.cloud_options import CloudOptions
from manager.controllers.cloud_parts import make_parts
from manager.controllers.cloud_rollouts import add_rollout_controller
from tests.cloud.rollouts.harness import NAMESPACE, NEW, OLD, Fleet
from tests.support.waiting import eventually
from tests.support.work import reconciles

pytestmark = pytest.mark.criterion("RO-FLEET")
FOUND = {"metric": {"job": "shop"}, "value": [1.0, "0.07"]}


def vector(*samples: dict[str, Any]) -> dict[str, Any]:
    """What Prometheus answers to an instant query."""
    return {"status": "success", "data": {"resultType": "vector", "result": list(samples)}}


@dataclass
class Checks:
    """Plays Prometheus below /prometheus, and a hook at /hook."""

    answer: Callable[[], web.Response]
    port: int = 0
    queries: list[str] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    @property
    def requests(self) -> int:
        return len(self.queries) + len(self.posted)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Checks]:
        application = web.Application()
        application.router.add_get("/prometheus/api/v1/query", self._query)
        application.router.add_post("/hook", self._hook)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _query(self, request: web.Request) -> web.Response:
        self.queries.append(request.query["query"])
        self.tokens.add(request.headers.get("Authorization", ""))
        return self.answer()

    async def _hook(self, request: web.Request) -> web.Response:
        self.posted.append(await request.json())
        return self.answer()

    def prometheus(self, **more: Any) -> dict[str, Any]:
        query = {"url": f"{self.url}/prometheus", "query": "errors > 0.02"}
        return {"name": "errors", "prometheus": query, "periodSeconds": 1, **more}

    def hook(self) -> dict[str, Any]:
        return {"name": "orders", "hook": {"url": f"{self.url}/hook"}, "periodSeconds": 1}


def rollouts(*urls: str, **options: Any) -> Callable[[Manager], None]:
    """Return what adds the controller of FleetRollouts with these addresses allowed."""

    def add(manager: Manager) -> None:
        made = CloudOptions(health_check_urls=urls, **options)
        freezes = add_change_freezes(manager, FrozenSystem.CLOUD)
        add_rollout_controller(make_parts(manager, made, SUBRESOURCES), freezes)

    return add


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet.start(tmp_path, manager=False) as made:
        yield made


@pytest.fixture
async def checks() -> AsyncIterator[Checks]:
    async with Checks(lambda: web.json_response(vector())).listening() as made:
        yield made


async def fails_once_changed(fleet: Fleet, checks: Checks) -> None:
    """Have the query find something from the first assignment on."""

    def answer() -> web.Response:
        return web.json_response(vector(FOUND) if fleet.assignments else vector())

    checks.answer = answer


async def test_a_query_that_finds_something_rolls_back_what_has_changed(
    fleet: Fleet, checks: Checks, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret-token\n")
    await fails_once_changed(fleet, checks)
    await fleet.start_manager(rollouts(checks.url, health_check_token_file=token))
    await fleet.create_instances(6)
    waves = [{"name": "first", "percent": 34, "soakSeconds": 600}, {"name": "all"}]
    await fleet.roll_out(waves=waves, onHalt="Rollback", healthChecks=[checks.prometheus()])
    status = await fleet.reaches("RolledBack", rolled_back=3)
    assert set((await fleet.versions()).values()) == {OLD}
    (found,) = status.health_checks
    assert (found.state, found.failed_version) == (HealthCheckState.FAILING, NEW)
    assert found.message == "the query finds {job=shop} 0.07"
    assert checks.queries[0] == "errors > 0.02"
    assert checks.tokens == {"Bearer secret-token"}
    changed = {name for name, version in fleet.assignments if version == NEW}
    assert len(changed) == 3


async def test_a_halt_outlives_recovery_and_a_restart_and_is_resumed(
    fleet: Fleet, checks: Checks
) -> None:
    await fails_once_changed(fleet, checks)
    await fleet.start_manager(rollouts(checks.url))
    await fleet.create_instances(4)
    waves = [{"name": "first", "percent": 25, "soakSeconds": 600}, {"name": "all"}]
    await fleet.roll_out(waves=waves, onHalt="Hold", healthChecks=[checks.prometheus()])
    status = await fleet.reaches("Halted", updated=1)
    assert "the health check 'errors' failed: the query finds {job=shop} 0.07" in status.message
    checks.answer = lambda: web.json_response(vector())
    await fleet.stop_manager()
    await fleet.start_manager(rollouts(checks.url))
    seen = checks.requests
    await eventually(lambda: checks.requests > seen + 1)
    assert (await fleet.status()).phase == "Halted"
    patch = {"spec": {"waves": [{"name": "first", "percent": 25}, {"name": "all"}]}}
    await fleet.client.patch(FleetRollout, "release", patch, namespace=NAMESPACE)
    await fleet.annotate(resumed_at=datetime.now(UTC).isoformat())
    await fleet.reaches("Complete", updated=4)


async def test_an_irreversible_change_holds_and_the_message_gives_the_reason(
    fleet: Fleet, checks: Checks
) -> None:
    await fails_once_changed(fleet, checks)
    await fleet.start_manager(rollouts(checks.url))
    await fleet.create_instances(2)
    checked: dict[str, Any] = {
        "onHalt": "Rollback",
        "irreversible": True,
        "healthChecks": [checks.prometheus()],
    }
    waves = [{"name": "first", "percent": 50, "soakSeconds": 600}, {"name": "all"}]
    await fleet.roll_out(waves=waves, **checked)
    status = await fleet.reaches("Halted", updated=1)
    assert "not rolled back, the change is irreversible" in status.message


async def test_nothing_changes_while_a_check_fails_or_gives_no_result(
    fleet: Fleet, checks: Checks
) -> None:
    await fleet.start_manager(rollouts(checks.url))
    await fleet.create_instances(2)
    checks.answer = lambda: web.json_response(vector(FOUND))
    await fleet.roll_out(healthChecks=[checks.prometheus()])

    async def waits_for(text: str) -> None:
        async def holds() -> bool:
            status = await fleet.status()
            return status.waiting_reason == "Health" and text in status.message

        await fleet.wait(holds, text)

    await waits_for("the health check 'errors' fails: the query finds {job=shop} 0.07")
    checks.answer = lambda: web.Response(status=503, text="starting")
    await waits_for("has no result: the answer, 503, is no JSON object")
    checks.answer = lambda: web.Response(status=302, headers={"Location": "http://example.com"})
    await waits_for("has no result")
    assert fleet.assignments == []
    checks.answer = lambda: web.json_response(vector())
    await fleet.reaches("Complete", updated=2)


async def test_a_check_that_gives_no_result_rolls_nothing_back(
    fleet: Fleet, checks: Checks
) -> None:
    def answer() -> web.Response:
        return web.Response(status=500) if fleet.assignments else web.json_response(vector())

    checks.answer = answer
    await fleet.start_manager(rollouts(checks.url))
    await fleet.create_instances(4)
    waves = [{"name": "first", "percent": 25, "soakSeconds": 600}, {"name": "all"}]
    await fleet.roll_out(waves=waves, onHalt="Rollback", healthChecks=[checks.prometheus()])

    async def holds() -> bool:
        status = await fleet.status()
        return status.updated >= 1 and status.waiting_reason == "Health"

    await fleet.wait(holds, "the rest waits")
    assert {version for _, version in fleet.assignments} == {NEW}


async def test_a_hook_gets_the_rollout_and_its_message_is_shown(
    fleet: Fleet, checks: Checks
) -> None:
    def answer() -> web.Response:
        bad = {"healthy": False, "message": "12 orders failed"}
        return web.json_response(bad if fleet.assignments else {"healthy": True})

    checks.answer = answer
    await fleet.start_manager(rollouts(f"{checks.url}/hook"))
    await fleet.create_instances(2)
    waves = [{"name": "first", "percent": 50, "soakSeconds": 600}, {"name": "all"}]
    await fleet.roll_out(waves=waves, healthChecks=[checks.hook()])
    status = await fleet.reaches("Halted", updated=1)
    assert "the health check 'orders' failed: 12 orders failed" in status.message
    about = {"rollout": "release", "namespace": NAMESPACE, "targetVersion": NEW}
    assert checks.posted[0] == about


@pytest.mark.parametrize("allowed", [(), ("https://elsewhere.example.com",)])
async def test_an_address_that_is_not_allowed_gets_no_request(
    fleet: Fleet, checks: Checks, allowed: tuple[str, ...]
) -> None:
    await fleet.start_manager(rollouts(*allowed))
    await fleet.create_instances(1)
    await fleet.roll_out(healthChecks=[checks.prometheus()])

    async def holds() -> bool:
        return "--health-check-url" in (await fleet.status()).message

    await fleet.wait(holds, "the flag is named")
    assert fleet.assignments == []
    assert checks.requests == 0


async def test_nothing_is_requested_and_written_once_the_last_instance_has_soaked(
    fleet: Fleet, checks: Checks
) -> None:
    await fleet.start_manager(rollouts(checks.url))
    await fleet.create_instances(2)
    soon: dict[str, Any] = {
        "progressDeadlineSeconds": 3,
        "failureSoakSeconds": 0,
        "haltOnFailures": 100,  # the machine may be slower than the deadline
    }
    await fleet.roll_out(healthChecks=[checks.prometheus()], **soon)
    await fleet.reaches("Complete", updated=2)
    over = datetime.now(UTC) + timedelta(seconds=4)
    await eventually(lambda: datetime.now(UTC) > over)
    await fleet.idle()
    seen, manager = checks.requests, fleet.manager
    assert manager is not None
    for number in range(3):
        passes = reconciles(manager)
        await fleet.annotate(note=str(number))
        await eventually(lambda: reconciles(manager), passes.__lt__)
        await fleet.idle()
    assert checks.requests == seen > 0
    status = await fleet.status()
    assert status.health_checks[0].state == HealthCheckState.HEALTHY


# -- pure -----------------------------------------------------------------------------------------

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def spec_of(**more: Any) -> FleetRolloutSpec:
    check = {"name": "errors", "hook": {"url": "http://h"}, "periodSeconds": 10}
    found = {"targetVersion": NEW, "healthChecks": [check], **more}
    return FleetRolloutSpec.model_validate(found)


def result(state: HealthCheckState, age: float = 0.0) -> dict[str, CheckResult]:
    return {"errors": CheckResult(state, "7 errors", NOW - timedelta(seconds=age))}


@pytest.mark.parametrize(
    ("state", "watched", "halts", "holds"),
    [
        (HealthCheckState.HEALTHY, True, False, False),
        (HealthCheckState.HEALTHY, False, False, False),
        (HealthCheckState.FAILING, True, True, False),
        (HealthCheckState.FAILING, False, False, True),
        (HealthCheckState.UNKNOWN, True, False, True),
        (HealthCheckState.UNKNOWN, False, False, True),
    ],
)
def test_what_a_result_means(
    state: HealthCheckState, watched: bool, halts: bool, holds: bool
) -> None:
    found = judge(spec_of(), [], result(state), NOW, watched=watched)
    assert (bool(found.halt), found.hold is not None) == (halts, holds)


def test_a_result_that_is_too_old_is_none() -> None:
    found = judge(spec_of(), [], result(HealthCheckState.HEALTHY, 31), NOW, watched=True)
    assert found.hold is not None
    assert "too old" in found.hold.message


def test_a_failure_counts_for_its_target_until_it_is_resumed() -> None:
    failing, healthy = result(HealthCheckState.FAILING), result(HealthCheckState.HEALTHY)
    first = judge(spec_of(), [], failing, NOW, watched=True)
    later = NOW + timedelta(seconds=5)
    assert judge(spec_of(), first.status, healthy, later, watched=False).halt
    other = spec_of(targetVersion="9.9.9")
    assert not judge(other, first.status, healthy, later, watched=False).halt
    resumed = judge(spec_of(), first.status, healthy, later, watched=True, resumed_at=later)
    assert not resumed.halt
    assert resumed.hold is None


def test_a_changed_value_within_one_state_writes_nothing() -> None:
    first = judge(spec_of(), [], result(HealthCheckState.FAILING), NOW, watched=True)
    again = {"errors": CheckResult(HealthCheckState.FAILING, "8 errors", NOW)}
    second = judge(spec_of(), first.status, again, NOW, watched=True)
    assert second.status == first.status


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
