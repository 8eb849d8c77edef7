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
from tests.tenancy.harness import CONFIG_MAP, REGISTRY, TenancyHarness, config_map
from tests.tenancy.shared_server import DEFINITIONS

Manifest = dict[str, Any]

GROUP = "tenancy.ctrlruntime.dev"
APPROVAL = f"{GROUP}/approve-deletion"
OURS = (TenantRegistry, TenantTemplate, Tenant)
Kind = type[Tenant] | type[TenantRegistry] | type[TenantTemplate]
NAMES = ("a-cm", "b-cm", "a-kept", "b-kept")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    # While its CRD goes, the creation of a tenant is forbidden.
    async with TenancyHarness.start(
        tmp_path, denied=["tenants.tenancy.ctrlruntime.dev"]
    ) as harness:
        harness.rows("a", "b")
        await harness.registry()
        await template(harness)
        await harness.ready("a-web-app", "b-web-app")
        yield harness
        await install_crds(harness.client, of_kind("CustomResourceDefinition"))


async def template(harness: TenancyHarness) -> None:
    await harness.template(
        configMaps=[
            config_map("cm", "{{ .uid }}-cm"),
            config_map("kept", "{{ .uid }}-kept", deletionPolicy="Retain"),
        ]
    )


def definition(kind: Kind) -> str:
    return f"{kind.mapping().plural}.{GROUP}"


async def delete_definitions(harness: TenancyHarness, *kinds: Kind, approved: bool = False) -> None:
    """`kubectl delete crd`, and wait until they are gone."""
    if approved:
        patch = {"metadata": {"annotations": {APPROVAL: "true"}}}
        for kind in kinds:
            await harness.client.patch(DEFINITIONS, definition(kind), patch, type=PatchType.MERGE)
    await asyncio.gather(*(harness.client.delete(DEFINITIONS, definition(kind)) for kind in kinds))
    for kind in kinds:
        await harness.gone(DEFINITIONS, definition(kind), timeout=CRD_SECONDS)


async def reinstall(harness: TenancyHarness) -> None:
    """`kubectl apply -f install.yaml`, with a manager that starts anew."""
    await harness.stop_manager()
    await install_crds(harness.client, of_kind("CustomResourceDefinition"))
    await harness.start_manager()


async def uids(harness: TenancyHarness) -> dict[str, str]:
    """The UIDs of the tenants' objects that are there and not being deleted."""
    found = {name: await harness.get(CONFIG_MAP, name) for name in NAMES}
    return {
        name: item["metadata"]["uid"]
        for name, item in found.items()
        if item is not None and "deletionTimestamp" not in item["metadata"]
    }


async def annotate(harness: TenancyHarness, kind: Kind, name: str, value: str) -> None:
    patch = {"metadata": {"annotations": {APPROVAL: value}}}
    await harness.client.patch(
        kind.mapping(), name, patch, namespace=harness.namespace, type=PatchType.MERGE
    )


@pytest.mark.criterion("H-A9")
@pytest.mark.parametrize(
    "kinds", [OURS, (Tenant,), (TenantRegistry,)], ids=["all", "tenants", "registries"]
)
async def test_h_a9_deleting_the_crds_deletes_no_object_of_a_tenant(
    harness: TenancyHarness, kinds: tuple[Kind, ...]
) -> None:
    before = await uids(harness)
    assert sorted(before) == sorted(NAMES)
    mark = harness.mark()
    await delete_definitions(harness, *kinds)
    assert await uids(harness) == before
    await reinstall(harness)
    if TenantRegistry in kinds:
        await harness.registry()
    if TenantTemplate in kinds:
        await template(harness)
    await harness.ready("a-web-app", "b-web-app")
    assert await uids(harness) == before
    deleted = [
        entry.name
        for entry in harness.environment.proxy.log.entries(mark)
        if (entry.user, entry.verb, entry.resource) == ("manager", "delete", "configmaps")
    ]
    assert deleted == []


@pytest.mark.criterion("H-A9")
async def test_h_a9_with_the_approval_the_objects_go_with_their_crd(
    harness: TenancyHarness,
) -> None:
    before = await uids(harness)
    await delete_definitions(harness, Tenant, TenantRegistry, approved=True)
    after = await uids(harness)
    assert after == {name: uid for name, uid in before.items() if name.endswith("kept")}


@pytest.mark.criterion("H-A9")
async def test_h_a9_templates_that_went_with_their_crd_take_no_tenant_along(
    harness: TenancyHarness,
) -> None:
    """Also after the CRD was installed again, until somebody approves or applies the template."""
    await asyncio.sleep(1.1)  # the new CRD is younger than the tenants, in whole seconds
    before = await uids(harness)
    await delete_definitions(harness, TenantTemplate)
    await harness.synced(2)
    assert await uids(harness) == before
    await reinstall(harness)
    found = await harness.registry_condition("TenantsSynced", "False", "TenantsNotWritten")
    assert "'web-app'" in found.message
    assert APPROVAL in found.message
    assert await uids(harness) == before
    await template(harness)
    await harness.registry_condition("TenantsSynced", "True")
    assert await uids(harness) == before
    await delete_definitions(harness, TenantTemplate)
    await reinstall(harness)
    await harness.registry_condition("TenantsSynced", "False", "TenantsNotWritten")
    await annotate(harness, TenantRegistry, REGISTRY, "true")
    await harness.gone(Tenant.mapping(), "a-web-app")
    await harness.gone(CONFIG_MAP, "a-cm")


@pytest.mark.criterion("H-A9")
async def test_h_a9_a_protected_registry_that_is_deleted_holds_its_tenants(
    harness: TenancyHarness,
) -> None:
    before = await uids(harness)
    await harness.client.delete(TenantRegistry.mapping(), REGISTRY, namespace=harness.namespace)
    found = await harness.registry_condition("RemovalPending", "True", "DeletionProtected")
    assert "2 tenants would go with it" in found.message
    assert f'{APPROVAL}: "true"' in found.message
    await harness.idle()
    assert await uids(harness) == before
    await annotate(harness, TenantRegistry, REGISTRY, "true")
    await harness.gone(TenantRegistry.mapping(), REGISTRY)
    assert sorted(await uids(harness)) == ["a-kept", "b-kept"]


@pytest.mark.criterion("H-A9")
async def test_h_a9_a_registry_can_go_and_leave_its_tenants(harness: TenancyHarness) -> None:
    before = await uids(harness)
    await harness.client.delete(TenantRegistry.mapping(), REGISTRY, namespace=harness.namespace)
    await harness.registry_condition("RemovalPending", "True", "DeletionProtected")
    await annotate(harness, TenantRegistry, REGISTRY, "release")
    await harness.gone(TenantRegistry.mapping(), REGISTRY)
    await harness.idle()
    tenant = await harness.tenant("a-web-app")
    assert tenant is not None
    assert not tenant.metadata.owner_references
    assert await uids(harness) == before
    await harness.registry()
    await harness.eventually(
        lambda: harness.tenant("a-web-app"), lambda seen: bool(seen.metadata.owner_references)
    )
    await harness.ready("a-web-app", "b-web-app")
    assert await uids(harness) == before


@pytest.mark.criterion("H-A6")
async def test_h_a6_a_registry_reports_which_paused_tenant_it_waits_for(
    harness: TenancyHarness,
) -> None:
    patch: Manifest = {"metadata": {"annotations": {"ctrlruntime.dev/paused": "true"}}}
    await harness.client.patch(
        Tenant.mapping(), "a-web-app", patch, namespace=harness.namespace, type=PatchType.MERGE
    )
    await harness.condition("a-web-app", "Paused", "True")
    await annotate(harness, TenantRegistry, REGISTRY, "true")
    await harness.client.delete(TenantRegistry.mapping(), REGISTRY, namespace=harness.namespace)
    found = await harness.registry_condition("RemovalPending", "True", "TenantsPaused")
    assert "a-web-app (it is paused; remove its annotation ctrlruntime.dev/paused)" in found.message
    await harness.registry_condition("Ready", "False", "RemovalPending")
    patch = {"metadata": {"annotations": {"ctrlruntime.dev/paused": None}}}
    await harness.client.patch(
        Tenant.mapping(), "a-web-app", patch, namespace=harness.namespace, type=PatchType.MERGE
    )
    await harness.gone(TenantRegistry.mapping(), REGISTRY)


@pytest.mark.criterion("H-A6")
async def test_h_a6_a_row_that_waits_behind_a_stuck_tenant_reports_it(
    harness: TenancyHarness,
) -> None:
    held: Manifest = {"metadata": {"finalizers": ["example.com/slow"]}}
    await harness.client.patch(
        CONFIG_MAP, "a-cm", held, namespace=harness.namespace, type=PatchType.MERGE
    )
    harness.row("a", active=0)
    await harness.condition("a-web-app", "RemovalPending", "True", "FinalizersRemain")

    async def removals() -> int:
        registry = await harness.client.get(TenantRegistry, REGISTRY, namespace=harness.namespace)
        return int(registry.status.removals_pending)

    await harness.eventually(removals, lambda seen: seen == 1)
    harness.row("a")
    found = await harness.registry_condition("TenantsSynced", "False", "TenantsNotWritten")
    assert "'a-web-app'" in found.message
    assert "example.com/slow" in found.message
    held = {"metadata": {"finalizers": None}}
    await harness.client.patch(
        CONFIG_MAP, "a-cm", held, namespace=harness.namespace, type=PatchType.MERGE
    )
    await harness.registry_condition("TenantsSynced", "True")
    await harness.ready("a-web-app")
    await harness.eventually(removals, lambda seen: seen == 0)


@pytest.mark.criterion("H-A7")
@pytest.mark.criterion("FAULT-B27")
async def test_h_a7_resources_added_to_a_tenant_by_hand_are_reverted(
    harness: TenancyHarness,
) -> None:
    """A list entry and a variable of another field manager: an apply alone would leave both."""
    tenant = await harness.tenant("a-web-app")
    assert tenant is not None
    patch: list[Manifest] = [
        {"op": "add", "path": "/spec/configMaps/-", "value": config_map("mine", "mine")},
        {"op": "add", "path": "/spec/variables/mine", "value": "x"},
    ]
    await harness.client.patch(
        Tenant.mapping(),
        "a-web-app",
        patch,
        namespace=harness.namespace,
        type=PatchType.JSON,
        field_manager="kubectl-edit",
    )

    def is_as_before(seen: Tenant) -> bool:
        return seen.spec == tenant.spec and (seen.metadata.generation or 0) > (
            tenant.metadata.generation or 0
        )

    await harness.eventually(lambda: harness.tenant("a-web-app"), is_as_before)
    await harness.gone(CONFIG_MAP, "mine")
    await harness.ready("a-web-app")
    await harness.idle()
