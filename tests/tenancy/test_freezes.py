"""A ChangeFreeze, or a registry's closed maintenance window, holds changes of tenants that exist, and nothing else."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantRegistry
from apis.waiting import ChangesWaiting
from ctrlruntime.api import format_time
from ctrlruntime.backoff import BackoffOptions
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.options import CacheOptions
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Delay, Fail, Match
from ctrlruntime.json import Json
from manager.controllers import change_freezes
from tests.support.freezes import freeze_until, frozen, grant
from tests.tenancy.fleet import Fleet
from tests.tenancy.forked_manager import fork_manager
from tests.tenancy.harness import CONFIG_MAP, STATUS_PERIOD, TenancyHarness
from tests.tenancy.manager_forkserver import ForkServer
from tests.tenancy.rollout_fleet import (
    NAMES,
    content,
    make,
    put,
    status,
    updated,
    values,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("RO-FREEZE")]

FREEZES = "changefreezes.operations.ctrlruntime.dev"
TENANTS = "tenants.tenancy.ctrlruntime.dev"
SECONDS = 60.0
"""Within which changes go on once a freeze is over, on a machine that has much else to do."""


@pytest.fixture(autouse=True)
def counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a freeze holds is counted without a pause for what may follow."""
    monkeypatch.setattr(change_freezes, "STATUS_PERIOD", 0.1)


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


async def make_plain(harness: TenancyHarness, *uids: str, **registry: Json) -> Fleet:
    """A fleet whose template has no rollout, with the content `one`."""
    fleet = await Fleet.make(harness)
    fleet.rows(*uids)
    await fleet.registry(deletionGuard={"maxDeletePercent": 100}, **registry)
    await fleet.template(**content("one"))
    await fleet.ready(*(f"{uid}-app" for uid in uids))
    return fleet


async def waiting(fleet: Fleet, reason: str, changes: int) -> ChangesWaiting:
    """Wait until the registry reports that so many changes wait, and return what it reports."""

    async def look() -> ChangesWaiting | None:
        return (await fleet.read(TenantRegistry, "registry")).status.waiting

    return await fleet.harness.eventually(
        look, lambda w: w is not None and (w.reason, w.changes) == (reason, changes)
    )


async def test_template_rows_and_removals_wait_while_new_tenants_and_repairs_do_not(
    harness: TenancyHarness,
) -> None:
    fleet = await make_plain(harness, "a", "b", "c")
    async with frozen(harness.client, reason="Inventory") as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        fleet.row("b", plan="gold")
        fleet.delete_row("c")
        held = await waiting(fleet, "Frozen", 2)
        await fleet.template(**content("two"))
        held = await waiting(fleet, "Frozen", 3)
        assert freeze in held.message
        assert "Inventory" in held.message
        assert held.until is None
        condition = await fleet.until(
            TenantRegistry, "registry", "TenantsSynced", "False", "Frozen"
        )
        assert condition.message.startswith("Not everything could be written: 3 changes wait")

        fleet.rows("d")
        await fleet.ready("d-app")
        await harness.client.delete(CONFIG_MAP, "a-cm", namespace=fleet.namespace)
        await fleet.there(CONFIG_MAP, "a-cm")
        counted = await freeze_until(
            harness.client, freeze, lambda each: each.status.held.tenancy == 3
        )
        assert counted.status.held.cloud is None, "no manager of the cloud system runs"
        assert await fleet.tenants() == ["a-app", "b-app", "c-app", "d-app"]
        assert (await fleet.read(Tenant, "b-app")).spec.variables["planId"] == "basic"
        assert await updated(fleet, "two") == {"d-app"}, "a new tenant has the present content"
        began = time.monotonic()
    await fleet.gone(Tenant, "c-app")
    await harness.eventually(
        lambda: updated(fleet, "two"), lambda seen: seen == {"a-app", "b-app", "d-app"}
    )
    assert time.monotonic() - began < SECONDS
    await fleet.until(TenantRegistry, "registry", "TenantsSynced", "True")
    assert (await fleet.read(TenantRegistry, "registry")).status.waiting is None


async def test_a_spec_that_is_edited_by_hand_is_restored_in_a_freeze(
    harness: TenancyHarness,
) -> None:
    fleet = await make_plain(harness, "a")
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await fleet.patch(Tenant, "a-app", {"spec": {"configMaps": []}})
        await harness.eventually(lambda: _lists(fleet, "a-app"), lambda found: found == 1)
        assert await updated(fleet, "one") == {"a-app"}


async def _lists(fleet: Fleet, name: str) -> int:
    return len((await fleet.read(Tenant, name)).spec.config_maps)


async def test_a_rollout_waits_until_the_freeze_expires(harness: TenancyHarness) -> None:
    fleet = await make(harness, maxSkew=2)
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    async with frozen(harness.client, reason="Audit", until=later) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await put(fleet, content("two"), maxSkew=2)
        held = await status(fleet, lambda seen: seen.phase == "Frozen")
        assert (held.waiting_reason, held.waiting) == ("Frozen", len(NAMES))
        assert held.waiting_until == later
        assert "Audit" in held.message
        fleet.rows("new")
        await fleet.ready("new-app")
        assert await updated(fleet, "two") == set(), "new tenants get what the others have"
        end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
        await harness.client.patch(ChangeFreeze, freeze, {"spec": {"until": format_time(end)}})
        await harness.eventually(lambda: updated(fleet, "two"), bool)
        assert end <= datetime.now(UTC) < end + timedelta(seconds=SECONDS)
        await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(NAMES) + 1)
        over = await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Ended")
        assert over.status.held.tenancy == 0
    assert await updated(fleet, "two") == {*NAMES, "new-app"}


async def test_strays_are_not_pruned_in_a_freeze_and_are_once_it_is_over(
    harness: TenancyHarness,
) -> None:
    fleet = await make_plain(harness, "a")
    await fleet.template(**content("one"), prune=True)
    await harness.eventually(lambda: _prunes(fleet, "a-app"), bool)
    async with frozen(harness.client, reason="Audit") as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        made = await stray(fleet, "a-copy")

        async def pending() -> list[tuple[str, str]]:
            found = (await fleet.read(Tenant, "a-app")).status.pending_removals
            return [(item.reason, item.message) for item in found]

        ((reason, message),) = await harness.eventually(pending, bool)
        assert reason == "Frozen"
        assert freeze in message
        assert "Audit" in message
        await fleet.until(Tenant, "a-app", "RemovalPending", "False", "Frozen")
        await fleet.until(Tenant, "a-app", "Ready", "True")
        await freeze_until(harness.client, freeze, lambda each: each.status.held.tenancy == 1)
        await harness.stop_manager()
        await harness.start_manager()
        await harness.client.delete(CONFIG_MAP, "a-cm", namespace=fleet.namespace)
        await fleet.there(CONFIG_MAP, "a-cm")
        await harness.idle()
        assert await fleet.get(CONFIG_MAP, "a-copy") == made
        applied = (await fleet.read(Tenant, "a-app")).status.applied_resources
        assert not [key for key in applied if "a-copy" in key]
        began = time.monotonic()
    await fleet.gone(CONFIG_MAP, "a-copy")
    assert time.monotonic() - began < SECONDS
    await fleet.until(Tenant, "a-app", "RemovalPending", "False", "NothingPending")
    assert await fleet.get(CONFIG_MAP, "a-cm") is not None


async def test_strays_of_an_exempt_registry_are_pruned_in_a_freeze(harness: TenancyHarness) -> None:
    fleet = await make_plain(harness, "a")
    await fleet.template(**content("one"), prune=True)
    await harness.eventually(lambda: _prunes(fleet, "a-app"), bool)
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await stray(fleet, "a-copy")
        await fleet.until(Tenant, "a-app", "RemovalPending", "False", "Frozen")
        await grant(harness.client, freeze, "TenantRegistry", fleet.namespace, "registry")
        await fleet.gone(CONFIG_MAP, "a-copy")
        assert "/a-copy@cm" in (await fleet.event("ResourcePruned"))["note"]


async def _prunes(fleet: Fleet, name: str) -> bool:
    return bool((await fleet.read(Tenant, name)).spec.prune)


async def stray(fleet: Fleet, name: str) -> Json:
    """Copy the ConfigMap of tenant a under another name, with all of its marks."""
    original = await fleet.there(CONFIG_MAP, "a-cm")
    metadata = {key: original["metadata"][key] for key in ("annotations", "ownerReferences")}
    copied = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "name": name, "namespace": fleet.namespace},
        "data": {"value": "copied"},
    }
    return await fleet.harness.client.create(copied, field_manager="kubectl")


async def test_other_namespaces_and_exempt_registries_are_not_held(harness: TenancyHarness) -> None:
    fleet = await make_plain(harness, "a")
    async with frozen(harness.client, namespaces=["elsewhere"]) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await fleet.template(**content("two"))
        await harness.eventually(lambda: updated(fleet, "two"), bool)
    async with frozen(harness.client, namespaces=[fleet.namespace], systems=["Tenancy"]) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await fleet.template(**content("three"))
        await waiting(fleet, "Frozen", 1)
        await grant(harness.client, freeze, "TenantRegistry", fleet.namespace, "registry")
        await harness.eventually(lambda: updated(fleet, "three"), bool)
        assert await updated(fleet, "three") == {"a-app"}


async def test_a_registry_that_is_deleted_keeps_its_tenants_in_a_freeze(
    harness: TenancyHarness,
) -> None:
    fleet = await make_plain(harness, "a", deletionProtection=False)
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await fleet.delete(TenantRegistry, "registry")
        await fleet.until(TenantRegistry, "registry", "Ready", "False", message=freeze)
        assert await fleet.tenants() == ["a-app"]
    await fleet.gone(Tenant, "a-app")
    await fleet.gone(TenantRegistry, "registry")


async def test_outside_of_the_registrys_window_changes_wait_for_its_opening(
    harness: TenancyHarness,
) -> None:
    month = (datetime.now(UTC) + timedelta(days=90)).month
    window = {"schedule": f"0 3 1 {month} *", "duration": "2h", "timeZone": "Europe/Berlin"}
    fleet = await make_plain(harness, "a", "b", maintenanceWindows=[window])
    await fleet.template(**content("two"))
    fleet.delete_row("b")
    held = await waiting(fleet, "Window", 2)
    assert held.until is not None
    assert held.until > datetime.now(UTC)
    assert held.until.astimezone(UTC).hour == (1 if held.until.month in range(4, 11) else 2)
    assert await updated(fleet, "two") == set()
    always = {"schedule": "* * * * *", "duration": "5m"}
    await fleet.patch(TenantRegistry, "registry", {"spec": {"maintenanceWindows": [always]}})
    await fleet.gone(Tenant, "b-app")
    await harness.eventually(lambda: updated(fleet, "two"), lambda seen: seen == {"a-app"})


async def test_windows_that_cannot_be_used_are_closed_and_named(harness: TenancyHarness) -> None:
    bad = {"schedule": "0 3 * * *", "duration": "2h", "timeZone": "Mars/Olympus"}
    fleet = await make_plain(harness, "a", maintenanceWindows=[bad])
    await fleet.template(**content("two"))
    await waiting(fleet, "Window", 1)
    await fleet.until(
        TenantRegistry,
        "registry",
        "TenantsSynced",
        "False",
        message="spec.maintenanceWindows[0].timeZone",
    )
    assert await updated(fleet, "two") == set()


# -- managers that start in a freeze ---------------------------------------------------------------


async def start(harness: TenancyHarness, forkserver: ForkServer) -> ChildProcess:
    return await fork_manager(harness, forkserver, status_period=STATUS_PERIOD)


@pytest.mark.matrix
@pytest.mark.asyncio
async def test_managers_that_start_and_are_killed_in_a_freeze_change_nothing(
    tmp_path: Path, forkserver: ForkServer
) -> None:
    async with TenancyHarness.start(tmp_path, manager=False) as harness:
        fleet = await make_with_process(harness, forkserver)
        before = await generations(fleet)
        async with frozen(harness.client) as freeze:
            await fleet.template(**content("two"))
            fleet.delete_row("b")
            fleet.rows("new")
            slow = harness.environment.proxy.add(
                Delay(seconds=1.0), Match(resource=FREEZES), times=None
            )
            mark = harness.environment.proxy.log.mark()
            for _ in range(2):
                process = await start(harness, forkserver)
                await freeze_until(harness.client, freeze, lambda f: f.status.held.tenancy == 3)
                await process.stop(grace=0)
                await reset(harness, freeze)
            harness.environment.proxy.remove(slow)
            changed = [
                entry.name
                for entry in harness.environment.proxy.log.entries(mark)
                if entry.resource == TENANTS and entry.verb in {"patch", "delete", "update"}
            ]
            assert set(changed) <= {"new-app"}
            assert before.items() <= (await generations(fleet)).items()
            process = await start(harness, forkserver)
        await fleet.gone(Tenant, "b-app")
        await harness.eventually(
            lambda: updated(fleet, "two"), lambda seen: seen == {"a-app", "c-app", "new-app"}
        )
        await process.stop()


async def make_with_process(harness: TenancyHarness, forkserver: ForkServer) -> Fleet:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b", "c")
    await fleet.registry(deletionGuard={"maxDeletePercent": 100})
    await fleet.template(**content("one"))
    process = await start(harness, forkserver)
    await fleet.ready("a-app", "b-app", "c-app")
    await process.stop(grace=0)
    return fleet


async def reset(harness: TenancyHarness, freeze: str) -> None:
    """Take the counts off a freeze, so that those of the next manager are seen."""
    patch = {"status": {"held": {"tenancy": None}}}
    await harness.client.patch_status(ChangeFreeze, freeze, patch)


async def generations(fleet: Fleet) -> dict[str, int]:
    found = await fleet.harness.client.list(Tenant, fleet.namespace)
    return {item.metadata.name or "": item.metadata.generation or 0 for item in found}


@pytest.mark.asyncio
async def test_until_the_freezes_can_be_read_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_freezes, "SYNC_TIMEOUT", 0.5)
    reflector = ReflectorOptions(backoff=BackoffOptions(initial=0.1, cap=0.5))
    cache = CacheOptions(informers=InformerOptions(reflector=reflector))
    async with TenancyHarness.start(tmp_path, cache=cache) as harness:
        fleet = await make_plain(harness, "a")
        await harness.stop_manager()
        fault = harness.environment.proxy.add(
            Fail(code=403, reason="Forbidden"), Match(user="manager", resource=FREEZES), times=None
        )
        await fleet.template(**content("two"))
        await harness.start_manager()
        fleet.rows("new")
        await fleet.ready("new-app")
        held = await waiting(fleet, "Frozen", 1)
        assert "not known yet" in held.message
        assert (await values(fleet))["a-app"] == "one"
        harness.environment.proxy.remove(fault)
        await harness.eventually(lambda: updated(fleet, "two"), lambda seen: len(seen) == 2)
