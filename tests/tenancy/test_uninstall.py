"""CRDs that are deleted, and registries: nothing of a tenant is removed without approval (H-A9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest.crds import install_crds
from tests.limits import CRD_SECONDS
from tests.manifests.installation import of_kind
from tests.tenancy.harness import CONFIG_MAP, REGISTRY, World, config_map
from tests.tenancy.shared_server import DEFINITIONS

Manifest = dict[str, Any]

GROUP = "tenancy.ctrlruntime.dev"
APPROVAL = f"{GROUP}/approve-deletion"
OURS = (TenantRegistry, TenantTemplate, Tenant)
Kind = type[Tenant] | type[TenantRegistry] | type[TenantTemplate]
NAMES = ("a-cm", "b-cm", "a-kept", "b-kept")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    # While its CRD goes, the creation of a tenant is forbidden.
    async with World.start(tmp_path, denied=["tenants.tenancy.ctrlruntime.dev"]) as world:
        world.rows("a", "b")
        await world.registry()
        await template(world)
        await world.ready("a-web-app", "b-web-app")
        yield world
        await install_crds(world.client, of_kind("CustomResourceDefinition"))


async def template(world: World) -> None:
    await world.template(
        configMaps=[
            config_map("cm", "{{ .uid }}-cm"),
            config_map("kept", "{{ .uid }}-kept", deletionPolicy="Retain"),
        ]
    )


def definition(kind: Kind) -> str:
    return f"{kind.mapping().plural}.{GROUP}"


async def delete_definitions(world: World, *kinds: Kind, approved: bool = False) -> None:
    """`kubectl delete crd`, and wait until they are gone."""
    if approved:
        patch = {"metadata": {"annotations": {APPROVAL: "true"}}}
        for kind in kinds:
            await world.client.patch(DEFINITIONS, definition(kind), patch, type=PatchType.MERGE)
    await asyncio.gather(*(world.client.delete(DEFINITIONS, definition(kind)) for kind in kinds))
    for kind in kinds:
        await world.gone(DEFINITIONS, definition(kind), timeout=CRD_SECONDS)


async def reinstall(world: World) -> None:
    """`kubectl apply -f install.yaml`, with a manager that starts anew."""
    await world.stop_manager()
    await install_crds(world.client, of_kind("CustomResourceDefinition"))
    await world.start_manager()


async def uids(world: World) -> dict[str, str]:
    """The UIDs of the tenants' objects that are there and not being deleted."""
    found = {name: await world.get(CONFIG_MAP, name) for name in NAMES}
    return {
        name: item["metadata"]["uid"]
        for name, item in found.items()
        if item is not None and "deletionTimestamp" not in item["metadata"]
    }


async def annotate(world: World, kind: Kind, name: str, value: str) -> None:
    patch = {"metadata": {"annotations": {APPROVAL: value}}}
    await world.client.patch(
        kind.mapping(), name, patch, namespace=world.namespace, type=PatchType.MERGE
    )


@pytest.mark.criterion("H-A9")
@pytest.mark.parametrize(
    "kinds", [OURS, (Tenant,), (TenantRegistry,)], ids=["all", "tenants", "registries"]
)
async def test_h_a9_deleting_the_crds_deletes_no_object_of_a_tenant(
    world: World, kinds: tuple[Kind, ...]
) -> None:
    before = await uids(world)
    assert sorted(before) == sorted(NAMES)
    mark = world.mark()
    await delete_definitions(world, *kinds)
    assert await uids(world) == before
    await reinstall(world)
    if TenantRegistry in kinds:
        await world.registry()
    if TenantTemplate in kinds:
        await template(world)
    await world.ready("a-web-app", "b-web-app")
    assert await uids(world) == before
    deleted = [
        entry.name
        for entry in world.environment.proxy.log.entries(mark)
        if (entry.user, entry.verb, entry.resource) == ("manager", "delete", "configmaps")
    ]
    assert deleted == []


@pytest.mark.criterion("H-A9")
async def test_h_a9_with_the_approval_the_objects_go_with_their_crd(world: World) -> None:
    before = await uids(world)
    await delete_definitions(world, Tenant, TenantRegistry, approved=True)
    after = await uids(world)
    assert after == {name: uid for name, uid in before.items() if name.endswith("kept")}


@pytest.mark.criterion("H-A9")
async def test_h_a9_templates_that_went_with_their_crd_take_no_tenant_along(world: World) -> None:
    """Also after the CRD was installed again, until somebody approves or applies the template."""
    await asyncio.sleep(1.1)  # the new CRD is younger than the tenants, in whole seconds
    before = await uids(world)
    await delete_definitions(world, TenantTemplate)
    await asyncio.sleep(3)  # a few syncs
    assert await uids(world) == before
    await reinstall(world)
    found = await world.registry_condition("TenantsSynced", "False", "TenantsNotWritten")
    assert "'web-app'" in found.message
    assert APPROVAL in found.message
    assert await uids(world) == before
    await template(world)
    await world.registry_condition("TenantsSynced", "True")
    assert await uids(world) == before
    await delete_definitions(world, TenantTemplate)
    await reinstall(world)
    await world.registry_condition("TenantsSynced", "False", "TenantsNotWritten")
    await annotate(world, TenantRegistry, REGISTRY, "true")
    await world.gone(Tenant.mapping(), "a-web-app")
    await world.gone(CONFIG_MAP, "a-cm")


@pytest.mark.criterion("H-A9")
async def test_h_a9_a_protected_registry_that_is_deleted_holds_its_tenants(world: World) -> None:
    before = await uids(world)
    await world.client.delete(TenantRegistry.mapping(), REGISTRY, namespace=world.namespace)
    found = await world.registry_condition("RemovalPending", "True", "DeletionProtected")
    assert "2 tenants would go with it" in found.message
    assert f'{APPROVAL}: "true"' in found.message
    await world.idle()
    assert await uids(world) == before
    await annotate(world, TenantRegistry, REGISTRY, "true")
    await world.gone(TenantRegistry.mapping(), REGISTRY)
    assert sorted(await uids(world)) == ["a-kept", "b-kept"]


@pytest.mark.criterion("H-A9")
async def test_h_a9_a_registry_can_go_and_leave_its_tenants(world: World) -> None:
    before = await uids(world)
    await world.client.delete(TenantRegistry.mapping(), REGISTRY, namespace=world.namespace)
    await world.registry_condition("RemovalPending", "True", "DeletionProtected")
    await annotate(world, TenantRegistry, REGISTRY, "release")
    await world.gone(TenantRegistry.mapping(), REGISTRY)
    await world.idle()
    tenant = await world.tenant("a-web-app")
    assert tenant is not None
    assert not tenant.metadata.owner_references
    assert await uids(world) == before
    await world.registry()
    await world.eventually(
        lambda: world.tenant("a-web-app"), lambda seen: bool(seen.metadata.owner_references)
    )
    await world.ready("a-web-app", "b-web-app")
    assert await uids(world) == before


@pytest.mark.criterion("H-A6")
async def test_h_a6_a_registry_says_which_paused_tenant_it_waits_for(world: World) -> None:
    patch: Manifest = {"metadata": {"annotations": {"ctrlruntime.dev/paused": "true"}}}
    await world.client.patch(
        Tenant.mapping(), "a-web-app", patch, namespace=world.namespace, type=PatchType.MERGE
    )
    await world.condition("a-web-app", "Paused", "True")
    await annotate(world, TenantRegistry, REGISTRY, "true")
    await world.client.delete(TenantRegistry.mapping(), REGISTRY, namespace=world.namespace)
    found = await world.registry_condition("RemovalPending", "True", "TenantsPaused")
    assert "a-web-app (it is paused; remove its annotation ctrlruntime.dev/paused)" in found.message
    await world.registry_condition("Ready", "False", "RemovalPending")
    patch = {"metadata": {"annotations": {"ctrlruntime.dev/paused": None}}}
    await world.client.patch(
        Tenant.mapping(), "a-web-app", patch, namespace=world.namespace, type=PatchType.MERGE
    )
    await world.gone(TenantRegistry.mapping(), REGISTRY)


@pytest.mark.criterion("H-A6")
async def test_h_a6_a_row_that_waits_behind_a_stuck_tenant_says_so(world: World) -> None:
    held: Manifest = {"metadata": {"finalizers": ["example.com/slow"]}}
    await world.client.patch(
        CONFIG_MAP, "a-cm", held, namespace=world.namespace, type=PatchType.MERGE
    )
    world.row("a", active=0)
    await world.condition("a-web-app", "RemovalPending", "True", "FinalizersRemain")

    async def removals() -> int:
        registry = await world.client.get(TenantRegistry, REGISTRY, namespace=world.namespace)
        return int(registry.status.removals_pending)

    await world.eventually(removals, lambda seen: seen == 1)
    world.row("a")
    found = await world.registry_condition("TenantsSynced", "False", "TenantsNotWritten")
    assert "'a-web-app'" in found.message
    assert "example.com/slow" in found.message
    held = {"metadata": {"finalizers": None}}
    await world.client.patch(
        CONFIG_MAP, "a-cm", held, namespace=world.namespace, type=PatchType.MERGE
    )
    await world.registry_condition("TenantsSynced", "True")
    await world.ready("a-web-app")
    await world.eventually(removals, lambda seen: seen == 0)


@pytest.mark.criterion("H-A7")
@pytest.mark.criterion("FAULT-B27")
async def test_h_a7_resources_added_to_a_tenant_by_hand_are_reverted(world: World) -> None:
    """A list entry and a variable of another field manager: an apply alone would leave both."""
    tenant = await world.tenant("a-web-app")
    assert tenant is not None
    patch: list[Manifest] = [
        {"op": "add", "path": "/spec/configMaps/-", "value": config_map("mine", "mine")},
        {"op": "add", "path": "/spec/variables/mine", "value": "x"},
    ]
    await world.client.patch(
        Tenant.mapping(),
        "a-web-app",
        patch,
        namespace=world.namespace,
        type=PatchType.JSON,
        field_manager="kubectl-edit",
    )

    def is_as_before(seen: Tenant) -> bool:
        return seen.spec == tenant.spec and (seen.metadata.generation or 0) > (
            tenant.metadata.generation or 0
        )

    await world.eventually(lambda: world.tenant("a-web-app"), is_as_before)
    await world.gone(CONFIG_MAP, "mine")
    await world.ready("a-web-app")
    await world.idle()
