"""The word that lets deletions through the guard, when they do not succeed at once."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import pytest

from apis.tenancy import TenantRegistry
from ctrlruntime.envtest.proxy import Fail, Match
from internal.tenancy.registry.reports import recorded_of
from tests.envtest.kubectl.binaries import provisioned
from tests.envtest.kubectl.runner import Kubectl
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, approval_in, config_map

TENANTS = "tenants.tenancy.ctrlruntime.dev"


@pytest.mark.criterion("guard")
async def test_a_deletion_that_fails_at_first_needs_no_second_word(tmp_path: Path) -> None:
    """The word is taken away before the deletions; what it let go is tried again until it is gone."""
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows("a", "b")
        await fleet.registry()
        await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await fleet.ready("a-app", "b-app")
        refusal = harness.environment.proxy.add(
            Fail(500), Match(user="manager", verb="delete", resource=TENANTS), times=2
        )
        fleet.delete_row("a")
        fleet.delete_row("b")
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "EmptyResult")
        await fleet.approve("Held: a-app, b-app")
        await harness.eventually(fleet.tenants, lambda seen: seen == [])
        assert refusal.fired == 2
        registry = await fleet.read(TenantRegistry, "registry")
        assert not registry.metadata.annotations


@pytest.mark.criterion("G-T6")
async def test_g_t6_the_command_in_the_condition_approves_what_it_shows_once_and_no_other_set(
    tmp_path: Path,
) -> None:
    async with TenancyHarness.start(tmp_path, tls=True) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows("a", "b", "c", "d", "e")
        await fleet.registry()
        await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await fleet.ready("a-app", "b-app", "c-app", "d-app", "e-app")

        async def held(inactive: str) -> str:
            fleet.sql(f"UPDATE tenants SET active = uid NOT IN ({inactive})")
            shown = "Held: " + ", ".join(f"{uid}-app" for uid in inactive[1:-1].split("','"))
            condition = await fleet.until(
                TenantRegistry, "registry", "DeletionsHeld", "True", message=shown
            )
            return condition.message

        first = await held("'a','b','c'")
        assert (await fleet.event("TooManyDeletions"))["note"] == first
        second = await held("'b','c','d'")
        await paste(fleet, first)
        refused = f"approves another set ({approval_in(first)[1]}), not this one"
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message=refused)
        await harness.eventually(
            lambda: fleet.events("TooManyDeletions"),
            lambda seen: any(refused in event["note"] for event in seen),
        )
        assert len(await fleet.tenants()) == 5
        await paste(fleet, second)
        await harness.eventually(fleet.tenants, lambda seen: seen == ["a-app", "e-app"])
        assert not (await fleet.read(TenantRegistry, "registry")).metadata.annotations

        fleet.sql("UPDATE tenants SET active = 1")
        await fleet.ready("b-app", "c-app", "d-app")
        await held("'b','c','d'")
        await paste(fleet, second)
        refused = (
            f"allow-delete ({approval_in(second)[1]}) was used before, and an approval counts once"
        )
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message=refused)
        assert len(await fleet.tenants()) == 5


async def paste(fleet: Fleet, message: str) -> None:
    """Run the command that a message shows, as it stands."""
    command = message.partition("run `")[2].partition("`")[0]
    environment = fleet.harness.environment
    kubectl = Kubectl(provisioned(), environment.kubeconfig("envtest"), environment.folder)
    await asyncio.to_thread(kubectl, *shlex.split(command)[1:])


@pytest.mark.criterion("G-T1")
async def test_g_t1_an_approval_that_was_used_is_carried_out_by_the_next_manager(
    tmp_path: Path,
) -> None:
    """The manager ends between the use of the approval and the deletions; no second approval is needed."""
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows("a", "b", "c")
        await fleet.registry()
        await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await fleet.ready("a-app", "b-app", "c-app")
        proxy = harness.environment.proxy
        match = Match(user="manager", verb="delete", resource=TENANTS)
        refusal = proxy.add(Fail(500), match, times=None)
        fleet.delete_row("a")
        fleet.delete_row("b")
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True")
        await fleet.approve("Held: a-app, b-app")

        async def released() -> list[str]:
            return list((await fleet.read(TenantRegistry, "registry")).status.approved_removals)

        await harness.eventually(released, ["a-app", "b-app"].__eq__)
        await harness.eventually(lambda: fleet.read(TenantRegistry, "registry"), is_unannotated)
        fleet.delete_row("c")  # another set than was approved
        await harness.restart_manager()
        proxy.remove(refusal)
        await harness.eventually(fleet.tenants, ["c-app"].__eq__)
        await harness.eventually(released, [].__eq__)
        await harness.synced(1, fleet.namespace)
        assert await fleet.tenants() == ["c-app"]


@pytest.mark.criterion("G-T3")
def test_g_t3_the_record_of_what_was_approved_is_bounded() -> None:
    released = {f"tenant-{number:06}" for number in range(100_000)}
    assert recorded_of(released) == [f"tenant-{number:06}" for number in range(1000)]


def is_unannotated(registry: TenantRegistry) -> bool:
    return not registry.metadata.annotations
