"""Health checks of templates' rollouts: what holds, halts and rolls back, with a server that plays Prometheus and a hook."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from apis.tenancy import RolloutStatus, TenantTemplate
from ctrlruntime.json import Json
from ctrlruntime.rollout.health_checks import HealthCheckState
from internal.tenancy.shared.labels import RESUMED_AT
from manager.controllers.health_check_options import HealthCheckOptions
from tests.support.health_endpoints import FOUND, Checks, vector
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, permissive
from tests.tenancy.rollout_fleet import NAMES, content, make, put, status, updated

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("RO-4")]

CANARY: dict[str, Any] = {"canary": {"percent": 25}, "soakSeconds": 600}
"""Two of the eight tenants change, and the others wait for ten minutes."""
QUICK: dict[str, Any] = {"canary": {"percent": 25}}


def healthy() -> web.Response:
    return web.json_response(vector())


def failing() -> web.Response:
    return web.json_response(vector(FOUND))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def endpoints() -> AsyncIterator[Checks]:
    async with Checks(healthy).listening() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checked_harness(
    shared_server: None, endpoints: Checks, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    folder = tmp_path_factory.mktemp("harness")
    token = folder / "token"
    token.write_text("secret-token\n")
    allowed = HealthCheckOptions(urls=(endpoints.url,), token_file=token)
    options = permissive(folder, health_checks=allowed)
    async with TenancyHarness.start(folder, options=options) as harness:
        yield harness


@pytest.fixture
def harness(checked_harness: TenancyHarness) -> TenancyHarness:
    return checked_harness


@pytest.fixture
def checks(endpoints: Checks) -> Checks:
    endpoints.answer = healthy
    return endpoints


async def canaries_changed(fleet: Fleet, **rollout: Json) -> RolloutStatus:
    """Change the content, and wait until the canary has it and soaks while every check is healthy."""
    await put(fleet, content("two"), **rollout)
    return await status(
        fleet,
        lambda seen: (
            seen.updated == 2
            and not seen.changing
            and {item.state for item in seen.health_checks} == {HealthCheckState.HEALTHY}
        ),
    )


async def test_a_failing_query_during_the_soak_rolls_back_what_has_changed(
    harness: TenancyHarness, checks: Checks
) -> None:
    fleet = await make(harness)
    rollout = {**CANARY, "onHalt": "Rollback", "healthChecks": [checks.prometheus()]}
    soaking = await canaries_changed(fleet, **rollout)
    assert (soaking.phase, soaking.waiting_reason) == ("Progressing", "Wave")
    checks.answer = failing
    done = await status(fleet, lambda seen: seen.phase == "RolledBack" and not seen.changing)
    await fleet.ready(*NAMES)
    assert await updated(fleet, "one") == set(NAMES)
    assert (done.rolled_back, done.kept, done.updated) == (2, 0, 0)
    (check,) = done.health_checks
    assert check.state is HealthCheckState.FAILING
    assert check.message == "the query finds 1 sample"
    assert check.failed_version == done.target_revision
    assert "errors > 0.02" in checks.queries
    assert checks.tokens == {"Bearer secret-token"}
    await fleet.until(TenantTemplate, "app", "RolloutHalted", "True", "RolledBack")
    event = await fleet.event("HealthCheckFailing")
    assert event["type"] == "Warning"
    assert "'errors': the query finds 1 sample" in event["note"]
    assert shown(harness, fleet) == {"Failing": 1, "Healthy": 0, "Unknown": 0}

    checks.answer = healthy
    await put(fleet, content("three"), **QUICK, healthChecks=[checks.prometheus()])
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.rolled_back == 0)
    assert await updated(fleet, "three") == set(NAMES), "a failure counts for its content alone"
    await put(fleet, content("three"))
    await harness.eventually(partial(gone, harness, fleet), bool)


def shown(harness: TenancyHarness, fleet: Fleet) -> dict[str, float | None]:
    """The series of the check `errors`, by state."""
    assert harness.manager is not None
    registry, found = harness.manager.metrics.registry, {}
    for state in HealthCheckState:
        labels = {"template": "app", "namespace": fleet.namespace, "check": "errors"}
        labels["state"] = state.value
        found[state.value] = registry.get_sample_value(
            "tenanttemplate_rollout_health_check", labels
        )
    return found


async def gone(harness: TenancyHarness, fleet: Fleet) -> bool:
    return set(shown(harness, fleet).values()) == {None}


async def test_a_halt_by_a_check_outlives_its_recovery_and_a_restart_and_is_resumed(
    harness: TenancyHarness, checks: Checks
) -> None:
    fleet = await make(harness)
    rollout = {**CANARY, "onHalt": "Hold", "healthChecks": [checks.prometheus()]}
    await canaries_changed(fleet, **rollout)
    checks.answer = failing
    halted = await status(fleet, lambda seen: seen.phase == "Halted")
    assert "the health check 'errors' failed: the query finds 1 sample" in halted.message
    await fleet.until(TenantTemplate, "app", "RolloutHalted", "True", "HealthCheckFailed")
    checks.answer = healthy
    await harness.restart_manager()
    seen = await status(fleet, lambda seen: seen.health_checks[0].state is HealthCheckState.HEALTHY)
    assert (seen.phase, seen.updated) == ("Halted", 2)
    assert "the health check 'errors' failed at 20" in seen.message
    await put(fleet, content("two"), **QUICK, healthChecks=[checks.prometheus()])
    resumed = {"metadata": {"annotations": {RESUMED_AT: datetime.now(UTC).isoformat()}}}
    await fleet.patch(TenantTemplate, "app", resumed)
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "two") == set(NAMES)


async def test_a_restart_in_the_midst_of_a_soak_loses_no_check(
    harness: TenancyHarness, checks: Checks
) -> None:
    fleet = await make(harness)
    rollout = {**CANARY, "onHalt": "Rollback", "healthChecks": [checks.prometheus()]}
    await canaries_changed(fleet, **rollout)
    await harness.stop_manager()
    checks.answer = failing
    await harness.start_manager()
    done = await status(fleet, lambda seen: seen.phase == "RolledBack" and not seen.changing)
    assert done.rolled_back == 2
    assert await updated(fleet, "one") == set(NAMES)


async def test_a_hook_gets_the_template_and_its_message_is_in_no_status(
    harness: TenancyHarness, checks: Checks
) -> None:
    fleet = await make(harness)
    checks.answer = lambda: web.json_response({"healthy": True})
    rollout = {**CANARY, "healthChecks": [checks.hook()]}
    soaking = await canaries_changed(fleet, **rollout)
    bad = {"healthy": False, "message": "12 orders failed"}
    checks.answer = lambda: web.json_response(bad)
    halted = await status(fleet, lambda seen: seen.phase == "Halted")
    assert (
        "the health check 'orders' failed: the hook answers that it is not healthy"
        in halted.message
    )
    revision = soaking.target_revision
    about = {"template": "app", "namespace": fleet.namespace, "targetRevision": revision}
    assert about in checks.posted


async def test_a_prometheus_that_cannot_be_reached_holds_and_rolls_nothing_back(
    harness: TenancyHarness, checks: Checks
) -> None:
    fleet = await make(harness)
    rollout = {**CANARY, "onHalt": "Rollback", "healthChecks": [checks.prometheus()]}
    await canaries_changed(fleet, **rollout)
    await checks.close()
    try:
        held = await status(fleet, lambda seen: seen.waiting_reason == "Health")
        assert (held.phase, held.updated, held.rolled_back) == ("Progressing", 2, 0)
        assert "the health check 'errors' has no result" in held.message
        assert "does not answer" in held.message
        assert held.health_checks[0].failed_at is None
        assert (await fleet.event("HealthCheckUnknown"))["type"] == "Warning"
        without_soak = {**rollout, "soakSeconds": 0}
        await put(fleet, content("two"), **without_soak)
        await status(fleet, lambda seen: seen.waiting_reason == "Health" and seen.waiting == 6)
        assert len(await updated(fleet, "two")) == 2
    finally:
        await checks.open()
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.updated == len(NAMES))


async def test_an_irreversible_change_holds_and_the_message_gives_the_reason(
    harness: TenancyHarness, checks: Checks
) -> None:
    fleet = await make(harness)
    rollout = {**CANARY, "onHalt": "Rollback", "irreversible": True}
    await canaries_changed(fleet, **rollout, healthChecks=[checks.prometheus()])
    checks.answer = failing
    halted = await status(fleet, lambda seen: seen.phase == "Halted")
    assert "not rolled back, the change is irreversible" in halted.message
    assert (halted.updated, halted.kept, halted.rolled_back) == (2, 2, 0)
    assert len(await updated(fleet, "two")) == 2


async def test_nothing_changes_before_every_check_is_healthy(
    harness: TenancyHarness, checks: Checks
) -> None:
    fleet = await make(harness)
    checks.answer = failing
    await put(fleet, content("two"), healthChecks=[checks.prometheus()])
    held = await status(fleet, lambda seen: "fails: the query finds" in seen.message)
    assert (held.waiting_reason, held.waiting, held.updated) == ("Health", len(NAMES), 0)
    fleet.rows("new")
    await fleet.ready("new-app")
    assert await updated(fleet, "two") == set(), "new tenants get what the others have"
    checks.answer = healthy
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "two") == {*NAMES, "new-app"}


async def test_an_address_that_is_not_allowed_gets_no_request(
    harness: TenancyHarness, checks: Checks
) -> None:
    fleet = await make(harness)
    async with Checks(healthy).listening() as other:
        await put(fleet, content("two"), healthChecks=[other.prometheus()])
        held = await status(fleet, lambda seen: "--health-check-url" in seen.message)
        assert held.updated == 0
        assert other.requests == 0


async def test_a_template_whose_check_can_never_be_evaluated_is_not_valid(
    harness: TenancyHarness, checks: Checks
) -> None:
    fleet = await make(harness)
    hook = {"name": "orders", "hook": {"url": "http://user:hidden@orders"}}
    await put(fleet, content("two"), healthChecks=[hook])
    found = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    assert "rollout.healthChecks[0].hook.url: write an address such as" in found.message
    assert "hidden" not in found.message
    assert await updated(fleet, "two") == set()
