"""Objects that go because the values of rows changed count for the deletion guard."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from apis.fleet.labels import PLANE
from apis.tenancy import Tenant, TenantRegistry
from ctrlruntime.client.errors import AlreadyExists
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, approval_in, config_map

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("G-T3")]
UIDS = tuple(f"t{number}" for number in range(6))


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


async def made(
    harness: TenancyHarness, *entries: dict[str, Any], guard: dict[str, Any] | None = None
) -> Fleet:
    fleet = await Fleet.make(harness)
    for uid in UIDS:
        fleet.row(uid, plan="pro", image="eu,us")
    await fleet.registry(deletionGuard=guard or {})
    await fleet.template(configMaps=[config_map("base", "{{ .uid }}-base"), *entries])
    await fleet.ready(*(f"{uid}-app" for uid in UIDS))
    return fleet


async def names(fleet: Fleet) -> set[str]:
    found = await fleet.harness.client.list(CONFIG_MAP, fleet.namespace)
    return {item["metadata"]["name"] for item in found} - {"kube-root-ca.crt"}


PRO: dict[str, Any] = {"when": '{{ eq .planId "pro" }}'}


@pytest.mark.parametrize(
    ("entry", "change"),
    [
        (config_map("extra", "{{ .uid }}-extra", **PRO), "plan = NULL"),
        (
            config_map("extra", "{{ .uid }}-{{ .item }}", forEach={"items": "{{ .image }}"}),
            "image = '[]'",
        ),
        (config_map("extra", "{{ .uid }}-{{ .planId }}"), "plan = 'other'"),
        (
            config_map("extra", "{{ .uid }}-{{ toJson . | sha256sum | trunc 8 }}"),
            "plan = 'other'",
        ),
        (
            config_map("extra", "{{ .uid }}-extra", annotationsTemplate={PLANE: "{{ .planId }}"}),
            "plan = 'other'",
        ),
        (
            config_map(
                "extra",
                "{{ .uid }}-{{ .planId }}",
                annotationsTemplate={PLANE: "{{ int .planId }}"},
            ),
            "plan = 'other'",
        ),
        (
            config_map("extra", "{{ .uid }}-extra", targetNamespace="{{ .planId }}"),
            "plan = 'other'",
        ),
    ],
    ids=[
        "when",
        "forEach",
        "nameTemplate",
        "all variables",
        "plane",
        "a lossy plane",
        "targetNamespace",
    ],
)
async def test_g_t3_values_that_remove_objects_of_many_tenants_are_held_as_rows_that_vanish_are(
    harness: TenancyHarness, entry: dict[str, Any], change: str
) -> None:
    if "targetNamespace" in entry:
        entry = {**entry, "targetNamespace": harness.place("values-{{ .planId }}")}
        with contextlib.suppress(AlreadyExists):
            await harness.make_namespace(harness.place("values-pro"))
    fleet = await made(harness, entry)
    before, since = await names(fleet), harness.mark()
    fleet.sql(f"UPDATE tenants SET {change}")
    held = await fleet.until(
        TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions"
    )
    assert (
        "Changed values of 6 of 6 rows would remove 'extra' of template 'app', 1 may go at once; 6 of 6 tenants "
        "would lose objects, none did"
    ) in held.message
    await fleet.event("TooManyDeletions")
    await harness.idle()
    await harness.restart_manager()
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions")
    await harness.idle()
    assert await names(fleet) == before
    log = harness.environment.proxy.log.entries(since)
    assert [each.name for each in log if each.verb == "delete"] == []


async def test_g_t3_the_rows_back_or_an_approval_end_it_and_a_row_alone_goes_on(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, config_map("extra", "{{ .uid }}-extra", **PRO))
    fleet.row(UIDS[0], plan="basic", image="eu,us")
    await fleet.gone(CONFIG_MAP, f"{UIDS[0]}-extra")
    registry = await fleet.read(TenantRegistry, "registry")
    assert [(each.rows, each.uids) for each in registry.status.value_removals] == [(1, [UIDS[0]])]
    assert registry.status.removed_rows == []
    fleet.row(UIDS[1], plan="basic", image="eu,us")
    held = await fleet.until(
        TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions"
    )
    assert "and 1 were removed before, 1 may go within the window" in held.message
    fleet.row(UIDS[1], plan="pro", image="eu,us")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "False")
    fleet.sql("UPDATE tenants SET plan = NULL")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message="5 of 5 tenants")
    fleet.row("new", plan="pro", image="eu,us")
    await fleet.there(CONFIG_MAP, "new-extra")
    await fleet.approve("t5-app (extra)")
    for uid in UIDS[1:]:
        await fleet.gone(CONFIG_MAP, f"{uid}-extra")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "False")
    assert await fleet.get(CONFIG_MAP, "new-extra")
    assert {f"{uid}-base" for uid in UIDS} <= await names(fleet)


async def test_g_t3_values_that_only_change_content_or_retained_objects_hold_nothing(
    harness: TenancyHarness,
) -> None:
    fleet = await made(
        harness,
        config_map("kept", "{{ .uid }}-kept", deletionPolicy="Retain", **PRO),
        config_map("content", "{{ .uid }}-content", {"plan": "{{ .planId }}"}),
    )
    fleet.sql("UPDATE tenants SET plan = 'basic'")
    for uid in UIDS:
        await fleet.there(
            CONFIG_MAP, f"{uid}-content", lambda seen: seen["data"] == {"plan": "basic"}
        )
        assert await fleet.get(CONFIG_MAP, f"{uid}-kept")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "False")


async def test_g_t3_an_approval_counts_once_also_for_values_that_come_back_and_go_again(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, config_map("extra", "{{ .uid }}-extra", **PRO))
    fleet.sql("UPDATE tenants SET plan = NULL")
    held = await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True")
    digest = approval_in(held.message)[1]
    await fleet.allow_delete(digest)
    for uid in UIDS:
        await fleet.gone(CONFIG_MAP, f"{uid}-extra")
    fleet.sql("UPDATE tenants SET plan = 'pro'")
    for uid in UIDS:
        await fleet.there(CONFIG_MAP, f"{uid}-extra")
    before = await names(fleet)
    await harness.restart_manager()
    fleet.sql("UPDATE tenants SET plan = NULL")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message="6 of 6 tenants")
    await fleet.allow_delete(digest)
    used = f"allow-delete ({digest}) was used before, and an approval counts once"
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message=used)
    await harness.idle()
    assert await names(fleet) == before
    await fleet.approve(used)
    for uid in UIDS:
        await fleet.gone(CONFIG_MAP, f"{uid}-extra")


async def test_g_t3_objects_count_also_where_the_status_does_not_list_them(
    harness: TenancyHarness,
) -> None:
    """The statuses were wiped, or older ones put back: objects go by what they record themselves."""
    fleet = await made(harness, config_map("extra", "{{ .uid }}-extra", **PRO))
    before = await names(fleet)
    await harness.stop_manager()
    wiped = {"status": {"appliedResources": None}}
    for uid in UIDS:
        await harness.client.patch_status(Tenant, f"{uid}-app", wiped, namespace=fleet.namespace)
        await fleet.annotate(Tenant, f"{uid}-app", paused="true")  # its status stays as it is
    fleet.sql("UPDATE tenants SET plan = NULL")
    await harness.start_manager()
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message="6 of 6 tenants")
    await harness.idle()
    assert await names(fleet) == before


async def test_g_t3_rows_that_go_and_rows_that_lose_objects_of_several_entries_share_a_budget(
    harness: TenancyHarness,
) -> None:
    """One UPDATE does all three: no entry, and neither list of removals, is over the budget by itself."""
    fleet = await made(
        harness,
        config_map("extra", "{{ .uid }}-extra", **PRO),
        config_map("more", "{{ .uid }}-more", when='{{ eq .image "eu,us" }}'),
    )
    before = await names(fleet)
    fleet.sql(
        "UPDATE tenants SET active = uid <> 't0', plan = CASE uid WHEN 't1' THEN 'basic' ELSE plan END, "
        "image = CASE uid WHEN 't2' THEN 'eu' ELSE image END"
    )
    held = (
        "Changed values of 2 of 6 rows would remove objects of 2 resources and 1 were removed before, "
        "1 may go within the window of the guard; 2 of 5 tenants would lose objects"
    )
    gone = {"t0-base", "t0-extra", "t0-more"}
    for name in gone:
        await fleet.gone(CONFIG_MAP, name)
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message=held)
    await harness.idle()
    assert await names(fleet) == before - gone
    await fleet.approve("t1-app (extra), t2-app (more)")
    await fleet.gone(CONFIG_MAP, "t1-extra")
    await fleet.gone(CONFIG_MAP, "t2-more")
    fleet.delete_row("t3")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message="t3-app")


async def test_g_t3_a_row_that_lost_objects_counts_for_rows_that_go(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, config_map("extra", "{{ .uid }}-extra", **PRO))
    fleet.row(UIDS[0], plan="basic", image="eu,us")
    await fleet.gone(CONFIG_MAP, f"{UIDS[0]}-extra")
    fleet.delete_row(UIDS[1])
    held = "1 of 6 rows are gone or inactive and 1 were removed before, 1 may go"
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message=held)
    await harness.idle()
    assert await fleet.tenants() == [f"{uid}-app" for uid in UIDS]
    fleet.row(UIDS[1], plan="pro", image="eu,us")
    fleet.delete_row(UIDS[0])  # the row that is counted already
    await fleet.gone(Tenant, f"{UIDS[0]}-app")
