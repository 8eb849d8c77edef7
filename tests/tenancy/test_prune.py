"""`prune`: objects that carry a tenant's marks and that no resource of its template wants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant
from ctrlruntime.json import Json
from ctrlruntime.resources import OWNER, OWNER_UID
from internal.tenancy.shared.policies import DELETION_POLICY
from tests.support.freezes import frozen
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, SECRET, TenancyHarness, config_map
from tests.tenancy.test_plan_command import run_plan, write_template

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

Manifest = dict[str, Any]
LISTS: Manifest = {"configMaps": [config_map("cm", "{{ .uid }}-cm", {"k": "ours"})]}


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


async def settled(harness: TenancyHarness, **content: Json) -> Fleet:
    fleet = await Fleet.make(harness)
    fleet.rows("a")
    await fleet.registry()
    await fleet.template(**LISTS, **content)
    await fleet.ready("a-app")
    return fleet


async def copy(fleet: Fleet, name: str, **annotations: str | None) -> Manifest:
    """`kubectl get -o yaml`, another name, other annotations, `kubectl create`."""
    original = await fleet.there(CONFIG_MAP, "a-cm")
    metadata = original["metadata"]
    merged = {**metadata["annotations"], **annotations}
    made: Manifest = await fleet.harness.client.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": fleet.namespace,
                "annotations": {key: value for key, value in merged.items() if value is not None},
                "ownerReferences": metadata["ownerReferences"],
            },
            "data": {"k": "copied"},
        },
        field_manager="kubectl",
    )
    return made


async def test_6_prune_deletes_a_copy_of_a_child_and_nothing_that_is_wanted(
    harness: TenancyHarness,
) -> None:
    fleet = await settled(harness, prune=True)
    original = await fleet.there(CONFIG_MAP, "a-cm")
    await copy(fleet, "a-copy")
    await fleet.gone(CONFIG_MAP, "a-copy")
    await fleet.ready("a-app")
    assert await fleet.get(CONFIG_MAP, "a-cm") == original
    event = await fleet.event("ResourcePruned")
    assert "ConfigMap/" in event["note"]
    assert "/a-copy@cm" in event["note"]


async def test_6_without_prune_a_copy_stays_and_goes_once_the_template_has_it(
    harness: TenancyHarness,
) -> None:
    fleet = await settled(harness)
    made = await copy(fleet, "a-copy")
    await harness.idle()
    assert await fleet.get(CONFIG_MAP, "a-copy") == made
    await fleet.template(**LISTS, prune=True)
    await fleet.gone(CONFIG_MAP, "a-copy")
    assert (await fleet.there(CONFIG_MAP, "a-cm"))["data"] == {"k": "ours"}


async def test_6_prune_leaves_what_is_retained_has_no_policy_is_anothers_or_is_the_tenants_own(
    harness: TenancyHarness,
) -> None:
    fleet = await settled(harness, prune=True, generate={"password": {"length": 16}})
    kept = [
        await copy(fleet, "retained", **{DELETION_POLICY: "Retain"}),
        await copy(fleet, "no-policy", **{DELETION_POLICY: None}),
    ]
    foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "foreign",
            "namespace": fleet.namespace,
            "annotations": {
                **kept[0]["metadata"]["annotations"],
                DELETION_POLICY: "Delete",
                OWNER: f"{Tenant.gvk().group_kind}/{fleet.namespace}/a-app",
                OWNER_UID: "another",
            },
        },
    }
    kept.append(await harness.client.create(foreign, field_manager="kubectl"))
    await copy(fleet, "a-copy")
    await fleet.gone(CONFIG_MAP, "a-copy")
    await harness.idle()
    for each in kept:
        assert await fleet.get(CONFIG_MAP, each["metadata"]["name"]) == each
    assert await fleet.get(SECRET, "a-app-generated") is not None


async def test_6_prune_stops_while_the_tenant_is_paused(harness: TenancyHarness) -> None:
    fleet = await settled(harness, prune=True)
    await fleet.annotate(Tenant, "a-app", paused="true")
    await harness.idle()
    made = await copy(fleet, "a-copy")
    await harness.idle()
    assert await fleet.get(CONFIG_MAP, "a-copy") == made
    await fleet.annotate(Tenant, "a-app", paused=None)
    await fleet.gone(CONFIG_MAP, "a-copy")


async def test_6_the_plan_lists_what_prune_would_delete_and_deletes_nothing(
    harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await settled(harness)
    made = await copy(fleet, "a-copy")
    path = write_template(tmp_path, {**LISTS, "prune": True})
    planned = await run_plan(fleet, "-f", path)
    assert planned.code == 1, planned.output
    assert planned.members("delete") == {("ConfigMap", "a-copy")}
    group = planned.group("ConfigMap", "delete")
    assert "Pruned" in json.dumps(group), planned.output
    async with frozen(harness.client, reason="Audit") as freeze:
        planned = await run_plan(fleet, "-f", path)
        assert planned.members("delete") == set()
        (held,) = planned.made["held"]
        assert f"Frozen: it is not pruned yet: ChangeFreeze '{freeze}' holds" in held["message"]
    assert await fleet.get(CONFIG_MAP, "a-copy") == made
