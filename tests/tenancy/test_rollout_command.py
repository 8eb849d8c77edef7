"""`manager rollout` with a user's kubeconfig: it shows, pauses, resumes and undoes what the manager rolls out."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from apis.tenancy import TenantTemplate
from tests.manager_cli.program import Program
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness
from tests.tenancy.rollout_fleet import (
    NAMES,
    UIDS,
    bad_content,
    content,
    make,
    put,
    status,
    updated,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("RO-6")]


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


async def command(fleet: Fleet, *arguments: str, code: int = 0) -> str:
    """Run a command as an administrator in the fleet's namespace; what it printed."""
    name, *rest = arguments
    kubeconfig = str(fleet.harness.environment.kubeconfig("admin"))
    place = ["--kubeconfig", kubeconfig, "-n", fleet.namespace]
    async with await Program.start("rollout", name, *place, *rest) as program:
        assert await program.wait() == code, program.output
        return program.output


async def test_status_shows_a_halt_in_every_format(harness: TenancyHarness) -> None:
    fleet = await make(harness, maxSkew=2, haltOnFailures=1)
    await put(fleet, bad_content(), maxSkew=2, haltOnFailures=1)
    halted = await status(fleet, lambda seen: seen.phase == "Halted")
    found = json.loads(await command(fleet, "status", "app", "-o", "json"))
    assert [(row["name"], row["phase"], row["total"]) for row in found] == [("app", "Halted", 8)]
    assert yaml.safe_load(await command(fleet, "status", "-o", "yaml"))[0]["name"] == "app"
    table = (await command(fleet, "status")).splitlines()
    assert table[0].split()[:3] == ["NAME", "PHASE", "REVISION"]
    assert table[1].split()[:3] == ["app", "Halted", halted.target_revision]
    assert "the rollout is halted" in table[1]
    wide = (await command(fleet, "status", "-A", "-o", "wide")).splitlines()
    assert wide[0].split()[0] == "NAMESPACE"
    assert any(line.split()[:2] == [fleet.namespace, "app"] for line in wide)


async def test_undo_writes_the_content_before_and_a_numbered_one(harness: TenancyHarness) -> None:
    fleet = await make(harness, maxSkew=8)
    await put(fleet, content("two"), maxSkew=8)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS))
    rows: list[dict[str, Any]] = json.loads(await command(fleet, "history", "app", "-o", "json"))
    assert [(row["number"], row["present"]) for row in rows] == [(1, False), (2, True)]
    assert "back to revision 1" in await command(fleet, "undo", "app")
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "one") == set(NAMES)
    # The revision that is the present content now has the highest number.
    refused = await command(fleet, "undo", "app", "--to-revision", "1", code=1)
    assert "no such revision" in refused
    assert "back to revision 2" in await command(fleet, "undo", "app", "--to-revision", "2")
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "two") == set(NAMES)


async def test_undo_removes_the_lists_that_the_content_before_had_not(
    harness: TenancyHarness,
) -> None:
    fleet = await make(harness, maxSkew=8)
    account = {"id": "account", "nameTemplate": "{{ uid }}-account"}
    account["spec"] = {"apiVersion": "v1", "kind": "ServiceAccount"}  # type: ignore[assignment]
    await put(fleet, {**content("two"), "serviceAccounts": [account]}, maxSkew=8)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS))
    await command(fleet, "undo", "app")
    await status(fleet, lambda seen: seen.phase == "Complete")
    template = await fleet.read(TenantTemplate, "app")
    assert template.spec.service_accounts == []
    assert template.spec.rollout is not None
    assert template.spec.rollout.max_skew == 8


async def test_pause_and_resume(harness: TenancyHarness) -> None:
    fleet = await make(harness, maxSkew=8)
    await command(fleet, "pause", "app")
    template = await fleet.read(TenantTemplate, "app")
    assert template.spec.rollout is not None
    rollout = template.spec.rollout.to_wire()
    assert rollout["pause"] is True
    await put(fleet, content("two"), **rollout)
    await status(fleet, lambda seen: seen.phase == "Paused" and seen.waiting == len(UIDS))
    assert await updated(fleet, "one") == set(NAMES)
    await command(fleet, "resume", "app")
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "two") == set(NAMES)


async def test_a_template_without_a_rollout_and_one_that_is_missing_are_named(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    await fleet.registry()
    await fleet.template(**content("one"))
    for name in ("status", "pause", "resume"):
        assert "has no spec.rollout" in await command(fleet, name, "app", code=1)
    assert "recorded with other content or number: none" in await command(
        fleet, "undo", "app", code=1
    )
    assert "missing" in await command(fleet, "undo", "missing", code=1)
