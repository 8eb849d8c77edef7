"""Tenants that wait for others whose template is deleted: they wait on, and go on once it is back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from apis.tenancy import Tenant, TenantTemplate
from tests.tenancy.harness import SERVICE, TenancyHarness, config_map
from tests.tenancy.test_renames import deleted, exists, open_gate, opened, stays, uids, with_gate

pytestmark = pytest.mark.criterion("G-T5")
NOT_READY = "which is not ready yet"


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    async with TenancyHarness.start(tmp_path) as harness:
        yield harness


async def without(harness: TenancyHarness, template: str) -> None:
    await harness.client.delete(TenantTemplate, template, namespace=harness.namespace)
    await harness.registry_condition("DeletionsHeld", "True", "TemplateGone")


async def records(harness: TenancyHarness, name: str) -> dict[str, str]:
    tenant = await exists(harness, name)
    marks = ("replaced-by", "inherited-by", "hands-over")
    given = tenant.metadata.annotations or {}
    return {each: given.get(f"tenancy.ctrlruntime.dev/{each}", "") for each in marks}


async def later_than(harness: TenancyHarness, name: str) -> None:
    """Times of creation have whole seconds: what is made from now on is younger."""
    made = (await exists(harness, name)).metadata.creation_timestamp
    assert made is not None

    async def is_later() -> bool:
        return datetime.now(UTC) - made >= timedelta(seconds=1)

    await harness.eventually(is_later)


@pytest.mark.parametrize("ready_while_it_is_gone", [False, True])
async def test_g_t5_a_renamed_row_waits_on_while_the_template_is_gone(
    harness: TenancyHarness, *, ready_while_it_is_gone: bool
) -> None:
    """All rows are renamed at once and approved: the approval still counts once the template is back."""
    harness.rows("a", "b", "c")
    await harness.registry()
    await with_gate(harness)
    for uid in "abc":
        await exists(harness, f"{uid}-app")
        await opened(harness, uid)
    harness.sql("UPDATE tenants SET uid = uid || '2'")
    await exists(harness, "a2-app")
    await harness.approve("TooManyDeletions")
    await harness.registry_condition("DeletionsHeld", "False")
    await stays(harness, "a-app")
    recorded, since = await records(harness, "a-app"), harness.mark()
    assert recorded["hands-over"] == "true"
    await without(harness, "app")
    message = await stays(harness, "a-app")
    assert "'a-app' waits for 'a2-app', whose template is gone" in message
    await harness.restart_manager()
    await harness.synced()
    assert "whose template is gone" in await stays(harness, "a-app")
    if ready_while_it_is_gone:
        for uid in "abc":
            await opened(harness, f"{uid}2")
        await harness.synced()
        await harness.idle()
    assert (await records(harness, "a-app"), deleted(harness, since)) == (recorded, [])

    await with_gate(harness)
    if not ready_while_it_is_gone:
        await harness.registry_condition("RemovalPending", "True", message=NOT_READY)
        for uid in "abc":
            await opened(harness, f"{uid}2")
    for uid in "abc":
        await harness.gone(Tenant.mapping(), f"{uid}-app")
    await harness.registry_condition("DeletionsHeld", "False")
    await harness.registry_condition("RemovalPending", "False")
    assert {each[-3:] for each in await uids(harness) if each.startswith("ConfigMap")} == {"-cm"}


async def test_g_t5_a_renamed_template_that_goes_too_holds_both(harness: TenancyHarness) -> None:
    harness.rows("a", "b")
    await harness.registry()
    await harness.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await harness.ready("a-old", "b-old")
    since = harness.mark()
    await harness.client.delete(TenantTemplate, "old", namespace=harness.namespace)
    await with_gate(harness, "new")
    await exists(harness, "a-new")
    await stays(harness, "a-old")
    await without(harness, "new")
    assert "'a-old' waits for 'a-new', whose template is gone" in await stays(harness, "a-old")
    await with_gate(harness, "new")
    await harness.registry_condition("RemovalPending", "True", message=NOT_READY)
    assert deleted(harness, since) == []
    for uid in "ab":
        await harness.eventually(partial(harness.get, SERVICE, f"{uid}-gate"))
        await open_gate(harness, f"{uid}-gate")
    await harness.gone(Tenant.mapping(), "a-old")
    await harness.ready("a-new", "b-new")
    assert [each for each in deleted(harness, since) if not each.startswith("tenants")] == []


async def test_g_t5_who_waits_for_an_object_waits_on_while_the_template_of_its_owner_is_gone(
    harness: TenancyHarness,
) -> None:
    harness.rows("a", "b")
    await harness.registry()
    await harness.template("first", configMaps=[config_map("x", "{{ .uid }}-x")])
    await harness.ready("a-first", "b-first")
    await later_than(harness, "a-first")
    shared = config_map("cm", "{{ .uid }}-cm")
    await harness.template("second", configMaps=[shared])
    await harness.ready("a-second", "b-second")
    await harness.template("first", configMaps=[config_map("x", "{{ .uid }}-x"), shared])
    taken = "it belongs to Tenant 'a-second'"
    assert taken in (await harness.condition("a-first", "Conflicted", "True")).message
    before, since = await uids(harness), harness.mark()
    await without(harness, "second")
    await harness.restart_manager()
    await harness.synced()
    await harness.idle()
    assert taken in (await harness.condition("a-first", "Conflicted", "True")).message
    await harness.template("second", configMaps=[shared])
    await harness.registry_condition("DeletionsHeld", "False")
    assert taken in (await harness.condition("a-first", "Conflicted", "True")).message
    assert (await uids(harness), deleted(harness, since)) == (before, [])
    await without(harness, "second")
    await harness.approve("TemplateGone")
    await harness.ready("a-first", "b-first")
