"""Applied on a template: True only while every tenant exists, has its present content and is ready."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate, TenantTemplateStatus
from ctrlruntime.api.conditions import find_condition
from internal.tenancy.shared.tally import Counts
from internal.tenancy.template.compiled import Verdict
from internal.tenancy.template.reports import RegistryProblem, template_status
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map, is_ready
from tests.tenancy.test_messages import NOW

UIDS = ("a", "b", "c", "d", "e")


def waited_for(template: TenantTemplate) -> bool:
    """Whether `kubectl wait --for=condition=Applied` ends with this version of the object."""
    applied = find_condition(template.status.conditions, "Applied")
    return (
        applied is not None
        and applied.status == "True"
        and applied.observed_generation == template.metadata.generation
    )


def content(value: str) -> list[dict[str, Any]]:
    return [config_map("cm", "{{ .uid }}-cm", {"value": value})]


@contextlib.asynccontextmanager
async def checked(fleet: Fleet, rows: int) -> AsyncIterator[None]:
    """Whenever a wait for Applied would end, all tenants are there, ready, with the present content."""
    seen = 0

    async def check() -> None:
        nonlocal seen
        events = fleet.harness.client.watch(TenantTemplate, fleet.namespace)
        async with aclosing(events):
            async for _, template in events:
                if not waited_for(template):
                    continue
                tenants = await fleet.harness.client.list(Tenant, fleet.namespace)
                now = await fleet.read(TenantTemplate, "app")
                if now.metadata.generation != template.metadata.generation:
                    continue  # the tenants may already be those of the template's next content
                seen += 1
                wanted = template.spec.config_maps[0].spec["data"]
                assert len(tenants) == rows
                for tenant in tenants:
                    assert tenant.spec.config_maps[0].spec["data"] == wanted
                    assert is_ready(tenant)

    task = asyncio.create_task(check())
    yield
    await fleet.until(TenantTemplate, "app", "Applied", "True", "AllTenantsReady")

    async def noticed() -> bool:
        return task.done() or seen > 0

    await fleet.harness.eventually(noticed)
    if task.done():
        task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def updated(fleet: Fleet) -> bool:
    template = await fleet.read(TenantTemplate, "app")
    return waited_for(template)


@pytest.mark.criterion("H-A5")
async def test_h_a5_applied_is_true_only_once_every_tenant_has_the_content(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows(*UIDS)
        await fleet.registry()
        async with checked(fleet, len(UIDS)):
            await fleet.template(configMaps=content("1"))
            await harness.eventually(lambda: updated(fleet))
        async with checked(fleet, len(UIDS)):
            await fleet.template(configMaps=content("2"))
            await harness.eventually(lambda: updated(fleet))
        status = (await fleet.read(TenantTemplate, "app")).status
        assert (status.total_tenants, status.updated_tenants, status.ready_tenants) == (5, 5, 5)


@pytest.mark.criterion("H-A5")
async def test_h_a5_a_change_that_is_not_rolled_out_is_not_applied(tmp_path: Path) -> None:
    """With the database down a template's change reaches no tenant, also after a restart."""
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows(*UIDS)
        await fleet.registry()
        await fleet.template(configMaps=content("1"))
        await fleet.until(TenantTemplate, "app", "Applied", "True", "AllTenantsReady")

        # down from the start of the next manager, so that nothing rolls the change out
        await harness.stop_manager()
        place = harness.folder / fleet.file
        place.rename(place.with_suffix(".away"))
        await fleet.template(configMaps=content("2"))
        for _ in range(2):
            await harness.start_manager()
            found = await fleet.until(TenantTemplate, "app", "Applied", "False", "NotRolledOut")
            assert "0 of 5 tenants have the template's present content" in found.message
            await fleet.until(TenantRegistry, "registry", "Ready", "False")
            await harness.idle()
            template = await fleet.read(TenantTemplate, "app")
            assert not waited_for(template)
            assert template.status.observed_generation == template.metadata.generation
            assert (template.status.updated_tenants, template.status.ready_tenants) == (0, 5)
            await harness.stop_manager()
        await harness.start_manager()
        # every tenant there is has the content, but one may be missing
        await fleet.template(configMaps=content("1"))
        found = await fleet.until(TenantTemplate, "app", "Applied", "False", "RegistryNotRead")
        assert "The registry's condition Ready has the reason" in found.message
        async with checked(fleet, len(UIDS)):
            await fleet.template(configMaps=content("3"))
            place.with_suffix(".away").rename(place)


@pytest.mark.criterion("H-A5")
async def test_h_a5_a_paused_or_broken_template_is_not_applied(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows("a", "b")
        await fleet.registry()
        await fleet.template(configMaps=content("1"))
        await fleet.until(TenantTemplate, "app", "Applied", "True")
        await fleet.template(configMaps=content("{{ nothing | nonsense }}"))
        await fleet.until(TenantTemplate, "app", "Applied", "False", "NotRolledOut")
        await fleet.template(configMaps=content("1"))
        await fleet.until(TenantTemplate, "app", "Applied", "True")
        await fleet.annotate(TenantTemplate, "app", paused="true")
        await fleet.until(TenantTemplate, "app", "Paused", "True")
        await fleet.until(TenantTemplate, "app", "Applied", "True")
        await fleet.template(configMaps=content("2"))
        await fleet.until(TenantTemplate, "app", "Applied", "False", "PausedByAnnotation")
        await fleet.annotate(TenantTemplate, "app", paused=None)
        await fleet.until(TenantTemplate, "app", "Applied", "True", "AllTenantsReady")
        await harness.eventually(lambda: updated(fleet))


@pytest.mark.criterion("H-A5")
async def test_h_a5_tenants_made_by_hand_are_counted_apart(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows(*UIDS)
        await fleet.registry()
        await fleet.template(configMaps=content("1"))
        await fleet.until(TenantTemplate, "app", "Applied", "True")
        for name in ("x", "y"):
            lists = {"configMaps": [config_map("cm", f"{name}-cm")]}
            spec = {"uid": name, "templateRef": "app", "registryId": "registry", **lists}
            await fleet.create(Tenant, f"{name}-app", spec)
        await fleet.ready("x-app", "y-app")

        async def counts() -> tuple[int, ...]:
            registry = (await fleet.read(TenantRegistry, "registry")).status
            template = (await fleet.read(TenantTemplate, "app")).status
            of_registry = (registry.desired, registry.ready, registry.unmanaged)
            return (*of_registry, template.total_tenants, template.unmanaged_tenants)

        await harness.eventually(counts, lambda seen: seen == (5, 5, 2, 5, 2))
        await fleet.until(TenantTemplate, "app", "Applied", "True", "AllTenantsReady")
        await fleet.delete(Tenant, "x-app")
        await harness.eventually(counts, lambda seen: seen == (5, 5, 1, 5, 1))


@pytest.mark.criterion("H-A5")
@pytest.mark.parametrize(
    ("counts", "missing", "before", "expected"),
    [
        (Counts(0, 0, 0, 0), 0, False, "NoTenants"),
        (Counts(3, 3, 0, 3), 0, False, "AllTenantsReady"),
        (Counts(3, 3, 0, 3), 1, False, "NotRolledOut"),
        (Counts(0, 0, 0, 0), 2, False, "NotRolledOut"),
        (Counts(3, 3, 0, 2), 0, True, "NotRolledOut"),
        (Counts(3, 2, 0, 3), 0, True, "NotAllTenantsReady"),
        (Counts(3, 3, 0, 3), None, False, "RegistryNotRead"),
        (Counts(3, 3, 0, 3), None, True, "AllTenantsReady"),
        (Counts(3, 2, 0, 3), None, True, "NotAllTenantsReady"),
        (Counts(3, 3, 0, 2), None, True, "NotRolledOut"),
    ],
)
def test_h_a5_what_applied_reports(
    counts: Counts, missing: int | None, before: bool, expected: str
) -> None:
    previous = TenantTemplateStatus()
    no_registry = RegistryProblem("RegistryNotFound", "none")

    def status(counts: Counts, missing: int | None) -> TenantTemplateStatus:
        return template_status(
            previous,
            Verdict((), frozenset()),
            counts,
            missing=missing,
            registry=no_registry,
            generation=1,
            now=NOW,
        )

    if before:
        previous = status(Counts(3, 3, 0, 3), 0)
    applied = find_condition(status(counts, missing).conditions, "Applied")
    assert applied is not None
    assert applied.reason == expected
    assert (applied.status == "True") is (expected == "AllTenantsReady")
