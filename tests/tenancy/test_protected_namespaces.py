"""Protected namespaces: checked on what an object affects, the Namespace object included (H-D1)."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.resources import OWNER, OWNER_UID
from internal.tenancy.shared.labels import FIELD_MANAGER, KINDS, RESOURCE_ID
from internal.tenancy.shared.privileges import ForeignNamespaces, PrivilegeRefused, Privileges
from manager.controllers.tenancy_options import TenancyOptions
from manager.demo.tenants import manager_command
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, NAMESPACE_KIND, TenancyHarness, config_map

pytestmark = pytest.mark.criterion("H-D1")
LOOP = pytest.mark.asyncio(loop_scope="module")

PROTECTED = ("kube-public", "guarded", "vault-1")
NAMESPACE = GroupKind("", "Namespace")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """A manager whose templates may write to every namespace but the protected ones."""
    folder = tmp_path_factory.mktemp("harness")
    options = TenancyOptions(
        sqlite_root=folder,
        allow_foreign_namespaces=frozenset({"*"}),
        protected_namespaces=frozenset({"guarded", "vault-*"}),
    )
    async with TenancyHarness.start(folder, options=options) as harness:
        for name in PROTECTED:
            if await harness.get(NAMESPACE_KIND, name, namespace="") is None:
                await harness.make_namespace(name)
        yield harness


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def own(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """A manager whose tenants may write to the namespaces that they make."""
    folder = tmp_path_factory.mktemp("own")
    options = TenancyOptions(sqlite_root=folder, allow_foreign_namespaces=frozenset({"own"}))
    async with TenancyHarness.start(folder, options=options) as harness:
        yield harness


def namespace(name: str, **fields: object) -> dict[str, Any]:
    """A template entry of a Namespace with a label."""
    spec = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": {"owner": "tenant"}}}
    return {"id": "space", "nameTemplate": name, "spec": spec, **fields}


async def tenant(fleet: Fleet, **lists: object) -> None:
    """Create a tenant that no template made."""
    await fleet.create(Tenant, "a", {"uid": "a", "templateRef": "none", **lists})


@LOOP
@pytest.mark.matrix
@pytest.mark.parametrize("name", PROTECTED)
async def test_h_d1_a_protected_namespace_object_is_neither_changed_nor_deleted(
    harness: TenancyHarness, name: str
) -> None:
    fleet = await Fleet.make(harness)
    before = await harness.get(NAMESPACE_KIND, name, namespace="")
    await tenant(fleet, namespaces=[namespace(name, conflictPolicy="Force")])
    seen = await fleet.until(Tenant, "a", "Ready", "False", "ResourcesFailed")
    assert f"'{name}' is protected" in seen.message
    await fleet.delete(Tenant, "a")
    await fleet.gone(Tenant, "a")
    assert await harness.get(NAMESPACE_KIND, name, namespace="") == before


@LOOP
async def test_h_d1_a_protected_namespace_that_carries_our_marks_is_not_deleted(
    harness: TenancyHarness,
) -> None:
    """One that was taken over before it was protected."""
    fleet = await Fleet.make(harness)
    await tenant(fleet, configMaps=[config_map("cm", "cm")])
    await fleet.ready("a")
    uid = (await fleet.read(Tenant, "a")).metadata.uid
    owner = f"Tenant.tenancy.ctrlruntime.dev/{fleet.namespace}/a"
    marks = {
        OWNER: owner,
        OWNER_UID: uid,
        RESOURCE_ID: "space",
        "tenancy.ctrlruntime.dev/deletion-policy": "Delete",
    }
    head = {"apiVersion": "v1", "kind": "Namespace"}
    metadata = {"name": "guarded", "annotations": marks}
    await harness.client.apply({**head, "metadata": metadata}, field_manager=FIELD_MANAGER)
    await fleet.patch(Tenant, "a", {"metadata": {"annotations": {KINDS: "v1/Namespace"}}})
    await fleet.delete(Tenant, "a")
    await fleet.gone(Tenant, "a")
    left = await harness.get(NAMESPACE_KIND, "guarded", namespace="")
    assert left is not None
    assert "deletionTimestamp" not in left["metadata"]


@LOOP
async def test_h_d1_a_template_that_names_a_protected_namespace_is_refused(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a")
    await fleet.registry()
    await fleet.template(namespaces=[namespace("guarded")])
    seen = await fleet.until(TenantTemplate, "app", "Valid", "False", "PrivilegeRefused")
    assert "'guarded' is protected" in seen.message


@LOOP
@pytest.mark.parametrize("depends", [pytest.param(["space"], marks=pytest.mark.matrix), []])
async def test_h_d1_own_allows_the_namespaces_that_the_tenant_makes(
    own: TenancyHarness, depends: list[str]
) -> None:
    """No dependency on the namespace is needed."""
    fleet = await Fleet.make(own)
    place = f"{fleet.namespace}-own"
    made = config_map("cm", "cm", targetNamespace=place, dependIds=depends)
    await tenant(fleet, namespaces=[namespace(place)], configMaps=[made])
    await fleet.ready("a")
    assert await own.get(CONFIG_MAP, "cm", namespace=place) is not None


def test_h_d1_the_demo_allows_own_namespaces_and_no_others() -> None:
    command = manager_command(Path("kubeconfig"), Path("folder"), 0)
    assert [
        value
        for option, value in itertools.pairwise(command)
        if option == "--allow-foreign-namespaces"
    ] == ["own"]


@LOOP
@pytest.mark.matrix
async def test_h_d1_own_takes_no_namespace_over_not_even_by_force(own: TenancyHarness) -> None:
    fleet = await Fleet.make(own)
    place = f"{fleet.namespace}-other"
    await own.make_namespace(place)
    before = await own.get(NAMESPACE_KIND, place, namespace="")
    await tenant(
        fleet,
        namespaces=[namespace(place, conflictPolicy="Force")],
        configMaps=[config_map("cm", "cm", targetNamespace=place)],
    )
    seen = await fleet.until(Tenant, "a", "Ready", "False")
    assert "is not owned by this tenant" in seen.message
    assert await own.get(NAMESPACE_KIND, place, namespace="") == before
    assert await own.get(CONFIG_MAP, "cm", namespace=place) is None
    await fleet.delete(Tenant, "a")
    await fleet.gone(Tenant, "a")
    assert await own.get(NAMESPACE_KIND, place, namespace="") == before


@LOOP
async def test_h_d1_own_allows_no_namespace_of_another_tenant(own: TenancyHarness) -> None:
    fleet = await Fleet.make(own)
    place = f"{fleet.namespace}-own"
    await tenant(fleet, namespaces=[namespace(place)])
    await fleet.ready("a")
    spec = {"uid": "b", "templateRef": "none"}
    await fleet.create(
        Tenant, "b", {**spec, "configMaps": [config_map("cm", "cm", targetNamespace=place)]}
    )
    seen = await fleet.until(Tenant, "b", "Ready", "False", "ResourcesFailed")
    assert "is not the tenant's own" in seen.message
    assert await own.get(CONFIG_MAP, "cm", namespace=place) is None


class TestAffectedNamespaces:
    """What a cluster-scoped object names, in the fields of each kind that the manager may allow."""

    NAMING = (
        ("ClusterRoleBinding", {"subjects": [{"kind": "ServiceAccount", "namespace": "kube-x"}]}),
        ("PersistentVolume", {"spec": {"claimRef": {"name": "c", "namespace": "kube-x"}}}),
        ("APIService", {"spec": {"service": {"name": "s", "namespace": "kube-x"}}}),
        (
            "MutatingWebhookConfiguration",
            {"webhooks": [{"clientConfig": {"service": {"namespace": "kube-x"}}}]},
        ),
        ("VolumeSnapshotContent", {"spec": {"volumeSnapshotRef": {"namespace": "kube-x"}}}),
    )

    @pytest.mark.parametrize(("kind", "body"), NAMING)
    def test_h_d1_a_named_protected_namespace_is_refused(
        self, kind: str, body: dict[str, Any]
    ) -> None:
        privileges = Privileges(foreign=ForeignNamespaces.parse(frozenset({"*"})))
        manifest = {"metadata": {"name": "x"}, **body}
        with pytest.raises(PrivilegeRefused, match="'kube-x' is protected"):
            privileges.check_cluster_scoped(manifest, GroupKind("any.group", kind), "home")

    def test_h_d1_a_schema_with_a_property_named_namespace_is_none(self) -> None:
        schema = {"properties": {"namespace": {"type": "string"}}}
        Privileges().check_cluster_scoped({"spec": schema}, GroupKind("a", "B"), "home")

    def test_h_d1_namespaces_have_to_be_listed(self) -> None:
        privileges = Privileges(foreign=ForeignNamespaces.parse(frozenset({"team-*"})))
        privileges.check_cluster_scoped({"metadata": {"name": "team-1"}}, NAMESPACE, "home")
        with pytest.raises(PrivilegeRefused, match="'x' is not among"):
            privileges.check_cluster_scoped({"metadata": {"name": "x"}}, NAMESPACE, "home")
