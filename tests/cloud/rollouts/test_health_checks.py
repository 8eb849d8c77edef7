"""Health checks of FleetRollouts: what holds, halts and rolls back, with a server that plays Prometheus and hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from apis.cloud import FleetRollout
from apis.operations import FrozenSystem
from ctrlruntime.manager import Manager
from ctrlruntime.rollout.health_checks import HealthCheckState
from internal.cloud.subresources import SUBRESOURCES
from manager.controllers.change_freezes import add_change_freezes
from manager.controllers.cloud_options import CloudOptions
from manager.controllers.cloud_parts import make_parts
from manager.controllers.cloud_rollouts import add_rollout_controller
from manager.controllers.health_check_options import HealthCheckOptions
from tests.cloud.rollouts.harness import NAMESPACE, NEW, OLD, Fleet
from tests.support.health_endpoints import FOUND, Checks, vector
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("RO-FLEET")


def rollouts(*urls: str, token_file: Path | None = None) -> Callable[[Manager], None]:
    """Return what adds the controller of FleetRollouts with these addresses allowed."""

    def add(manager: Manager) -> None:
        allowed = HealthCheckOptions(urls=urls, token_file=token_file)
        made = CloudOptions(health_checks=allowed)
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
    await fleet.start_manager(rollouts(checks.url, token_file=token))
    await fleet.create_instances(6)
    waves = [{"name": "first", "percent": 34, "soakSeconds": 600}, {"name": "all"}]
    await fleet.roll_out(waves=waves, onHalt="Rollback", healthChecks=[checks.prometheus()])
    status = await fleet.reaches("RolledBack", rolled_back=3)
    assert set((await fleet.versions()).values()) == {OLD}
    (found,) = status.health_checks
    assert (found.state, found.failed_version) == (HealthCheckState.FAILING, NEW)
    assert found.message == "the query finds 1 sample"
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
    assert "the health check 'errors' failed: the query finds 1 sample" in status.message
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

    await waits_for("the health check 'errors' fails: the query finds 1 sample")
    checks.answer = lambda: web.Response(status=503, text="starting")
    await waits_for("has no result: the answer, 503, is no JSON object")
    checks.answer = lambda: web.Response(status=302, headers={"Location": "http://example.com"})
    await waits_for("has no result")
    assert fleet.assignments == []
    checks.answer = lambda: web.json_response(vector())
    await fleet.reaches("Complete", updated=2)


async def test_the_alert_of_a_check_without_a_result_has_its_series_until_there_is_one(
    fleet: Fleet, checks: Checks
) -> None:
    checks.answer = lambda: web.Response(status=503)
    await fleet.start_manager(rollouts(checks.url))
    await fleet.create_instances(1)
    await fleet.roll_out(healthChecks=[checks.prometheus()])
    manager = fleet.manager
    assert manager is not None

    def fires() -> bool:
        """What the alert CloudRolloutHealthUnknown compares."""
        key = {"namespace": NAMESPACE, "rollout": "release"}
        value = manager.metrics.registry.get_sample_value
        unknown = value(
            "cloud_rollout_health_check", {**key, "check": "errors", "state": "Unknown"}
        )
        return unknown == value("cloud_rollout_phase", {**key, "phase": "Progressing"}) == 1

    await eventually(lambda: checks.requests > 1 and fires())
    checks.answer = lambda: web.json_response(vector())
    await fleet.reaches("Complete", updated=1)
    await eventually(lambda: not fires())
    await fleet.client.delete(FleetRollout, "release", namespace=NAMESPACE)
    await eventually(lambda: b"cloud_rollout_health_check{" not in manager.metrics.render())


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


async def test_a_hook_gets_the_rollout_and_its_message_is_in_no_status(
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
    assert (
        "the health check 'orders' failed: the hook answers that it is not healthy"
        in status.message
    )
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
    await fleet.idle(within=4)  # the deadline is over
    seen, manager = checks.requests, fleet.manager
    assert manager is not None
    [controller] = [each for each in manager.controllers if each.name == "fleetrollout"]
    passes = controller.queue.core.stats
    for number in range(3):
        before = passes.adds
        await fleet.annotate(note=str(number))
        await fleet.idle()
        assert passes.adds > before
    assert checks.requests == seen > 0
    status = await fleet.status()
    assert status.health_checks[0].state == HealthCheckState.HEALTHY
