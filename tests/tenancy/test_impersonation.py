"""Templates that name a service account: written with its rights, and otherwise as any template."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest.proxy.requests import READS
from ctrlruntime.resources import OWNER
from manager.controllers.tenancy_options import TenancyOptions
from tests.manifests.installation import ACCOUNT, NAMESPACE
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, SECRET, TenancyHarness, config_map

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER = "manager"
WRITES = ["create", "delete", "patch", "update"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """A manager with exactly the roles of the installation, as the user `manager`."""
    folder: Path = tmp_path_factory.mktemp("harness")
    options = TenancyOptions(sqlite_root=folder)
    denied = ["configmaps", "secrets"]  # to the account
    async with TenancyHarness.start(folder, options=options, denied=denied) as harness:
        yield harness


async def bind(fleet: Fleet, name: str, subject: dict[str, str], *rules: dict[str, Any]) -> None:
    """A Role in the fleet's namespace, and its binding."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": name, "namespace": fleet.namespace}
    head = {"apiVersion": f"{group}/v1", "metadata": metadata}
    client = fleet.harness.client
    role = {**head, "kind": "Role", "rules": list(rules)}
    await client.apply(role, field_manager="test", force=True)
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    binding = {**head, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    await client.apply(binding, field_manager="test", force=True)


async def allow(fleet: Fleet, *resources: str) -> None:
    """Let the account `shop` write these kinds."""
    subject = {"kind": "ServiceAccount", "name": "shop", "namespace": fleet.namespace}
    rule = {"apiGroups": [""], "resources": list(resources), "verbs": WRITES}
    await bind(fleet, "shop", subject, rule)


async def allow_impersonation(fleet: Fleet) -> None:
    """Bind what the installation has for this, in the fleet's namespace alone."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "manager-impersonation", "namespace": fleet.namespace},
        "roleRef": {
            "apiGroup": group,
            "kind": "ClusterRole",
            "name": "ctrlruntime-impersonator-role",
        },
        "subjects": [
            {"kind": "User", "apiGroup": group, "name": USER},
            {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE},
        ],
    }
    await fleet.harness.client.create(binding)


async def shop(harness: TenancyHarness, *uids: str, **lists: object) -> Fleet:
    """A fleet with a template of the account `shop`."""
    fleet = await Fleet.make(harness)
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    metadata = {"name": "shop", "namespace": fleet.namespace}
    await harness.client.create({**account, "metadata": metadata})
    fleet.rows(*uids)
    await fleet.registry()
    await rewrite(fleet, **lists)
    return fleet


async def rewrite(fleet: Fleet, **lists: object) -> None:
    """Create the template, or replace its lists."""
    spec = {"registryId": "registry", "serviceAccountName": "shop", **lists}
    kind = TenantTemplate.mapping()
    head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
    metadata = {"name": "app", "namespace": fleet.namespace}
    await fleet.harness.put(kind, {**head, "metadata": metadata, "spec": spec})


SETTINGS = config_map("cm", "{{ .uid }}-cm", {"plan": "{{ .planId }}"})


@pytest.mark.criterion("impersonation")
async def test_what_is_missing_is_reported_step_by_step_and_wakes_by_itself(
    harness: TenancyHarness,
) -> None:
    fleet = await shop(harness, "a", configMaps=[SETTINGS])
    account = f"{fleet.namespace}/shop"
    whom = f"--serviceaccount={NAMESPACE}:{ACCOUNT}" if harness.is_real else f"--user={USER}"
    for kind, name in ((Tenant, "a-app"), (TenantTemplate, "app")):
        told = await fleet.until(kind, name, "PermissionsGranted", "False", "MissingPermission")
        assert told.message == (
            f"The manager may not impersonate the service account {account}. To allow it: "
            f"kubectl -n {fleet.namespace} create role impersonate-shop --verb=impersonate "
            f"--resource=serviceaccounts --resource-name=shop && "
            f"kubectl -n {fleet.namespace} create rolebinding impersonate-shop "
            f"--role=impersonate-shop {whom}"
        )
    await allow_impersonation(fleet)
    name = f"{fleet.namespace}-shop-configmaps"
    for kind, of in ((Tenant, "a-app"), (TenantTemplate, "app")):
        told = await fleet.until(
            kind, of, "PermissionsGranted", "False", message="The service account"
        )
        assert told.message == (
            f"The service account {account} may not patch configmaps in namespace "
            f"{fleet.namespace}. To allow it: kubectl -n {fleet.namespace} create role {name} "
            f"--verb=create,delete,patch,update --resource=configmaps && "
            f"kubectl -n {fleet.namespace} create rolebinding {name} --role={name} "
            f"--serviceaccount={fleet.namespace}:shop"
        )
    await allow(fleet, "configmaps")
    await fleet.ready("a-app")
    await fleet.until(Tenant, "a-app", "PermissionsGranted", "True", "Granted")
    await fleet.until(TenantTemplate, "app", "PermissionsGranted", "True", "Granted")


@pytest.mark.criterion("impersonation")
@pytest.mark.since("constrained impersonation")
async def test_constrained_impersonation_is_enough(harness: TenancyHarness) -> None:
    """A right to act as the account, for these requests only, instead of `impersonate`."""
    fleet = await shop(harness, "a", configMaps=[SETTINGS])
    await allow(fleet, "configmaps")
    account = f"{fleet.namespace}/shop"
    manager = (
        {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        if harness.is_real
        else {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}
    )
    identity = {
        "apiGroups": ["authentication.k8s.io"],
        "resources": ["serviceaccounts"],
        "resourceNames": ["shop"],
        "verbs": ["impersonate:serviceaccount"],
    }
    await bind(fleet, "as-shop", manager, identity)
    told = await fleet.until(Tenant, "a-app", "PermissionsGranted", "False", "MissingPermission")
    assert f"may not impersonate the service account {account}" in told.message
    on = [f"impersonate-on:serviceaccount:{verb}" for verb in WRITES]
    requests = {"apiGroups": [""], "resources": ["configmaps"], "verbs": on}
    await bind(fleet, "as-shop", manager, identity, requests)
    await fleet.ready("a-app")


@pytest.mark.criterion("impersonation")
async def test_ownership_drift_updates_and_deletion_are_as_ever(harness: TenancyHarness) -> None:
    fleet = await shop(harness, "a", "b", configMaps=[SETTINGS])
    await allow_impersonation(fleet)
    await allow(fleet, "configmaps")
    await fleet.ready("a-app", "b-app")
    live = await fleet.there(CONFIG_MAP, "a-cm")
    managers = {each["manager"] for each in live["metadata"]["managedFields"]}
    assert managers == {"tenant-operator"}
    assert live["metadata"]["annotations"][OWNER].endswith("a-app")
    await harness.client.patch(
        CONFIG_MAP, "a-cm", {"data": {"plan": "x"}}, namespace=fleet.namespace, type=PatchType.MERGE
    )
    await fleet.there(CONFIG_MAP, "a-cm", lambda seen: seen["data"] == {"plan": "basic"})
    await fleet.delete(CONFIG_MAP, "a-cm")
    await fleet.there(CONFIG_MAP, "a-cm")
    fleet.row("a", plan="pro")
    await fleet.there(CONFIG_MAP, "a-cm", lambda seen: seen["data"] == {"plan": "pro"})
    mark = harness.mark()
    fleet.row("b", active=0)
    await fleet.gone(Tenant, "b-app")
    await fleet.gone(CONFIG_MAP, "b-cm")
    await rewrite(fleet, configMaps=[])
    await fleet.gone(CONFIG_MAP, "a-cm")
    await harness.idle()
    entries = harness.environment.proxy.log.entries(mark)
    refused = [e for e in entries if e.namespace == fleet.namespace and e.code == 403]
    assert refused == []


@pytest.mark.criterion("impersonation")
async def test_the_account_can_do_less_than_the_manager_and_no_more(
    harness: TenancyHarness,
) -> None:
    secret = {
        "id": "secret",
        "nameTemplate": "{{ .uid }}-secret",
        "spec": {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}},
    }
    fleet = await shop(harness, "a", configMaps=[SETTINGS], secrets=[secret])
    await allow_impersonation(fleet)
    await allow(fleet, "configmaps")
    told = await fleet.until(Tenant, "a-app", "PermissionsGranted", "False", message="secrets")
    assert f"The service account {fleet.namespace}/shop may not patch secrets" in told.message
    await fleet.there(CONFIG_MAP, "a-cm")
    assert await fleet.get(SECRET, "a-secret") is None


@pytest.mark.criterion("impersonation")
async def test_a_tenant_whose_account_may_not_delete_waits_and_reports_it(
    harness: TenancyHarness,
) -> None:
    fleet = await shop(harness, "a", configMaps=[SETTINGS])
    await allow_impersonation(fleet)
    await allow(fleet, "configmaps")
    await fleet.ready("a-app")
    await allow(fleet, "secrets")  # and configmaps no more
    await fleet.delete(Tenant, "a-app")
    told = await fleet.until(Tenant, "a-app", "PermissionsGranted", "False", "MissingPermission")
    assert "may not delete configmaps" in told.message
    before = await fleet.read(Tenant, "a-app")
    assert await fleet.get(CONFIG_MAP, "a-cm")
    await allow(fleet, "configmaps")

    async def another() -> bool:
        now = await fleet.find(Tenant, "a-app")
        return now is None or now.metadata.uid != before.metadata.uid

    await harness.eventually(another)


@pytest.mark.criterion("impersonation")
async def test_writes_carry_the_account_and_reads_do_not(harness: TenancyHarness) -> None:
    fleet = await shop(harness, "a", configMaps=[SETTINGS])
    await allow_impersonation(fleet)
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}
    nothing = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    await bind(fleet, "unrelated", subject, nothing)
    mark = harness.mark()
    await allow(fleet, "configmaps")  # no right to read: the manager reads
    await fleet.ready("a-app")
    await fleet.annotate(Tenant, "a-app", reconcile_now="1")
    await harness.eventually(
        lambda: fleet.find(Tenant, "a-app"),
        lambda tenant: tenant.status.last_handled_reconcile == "1",
    )
    await fleet.ready("a-app")
    requests = [
        entry
        for entry in harness.environment.proxy.log.entries(mark)
        if entry.user == USER and entry.namespace in ("", fleet.namespace)
    ]
    writes = [e for e in requests if e.resource == "configmaps" and e.verb not in (*READS, "watch")]
    assert {e.acting_as.rpartition(":")[2] for e in writes} == {"shop"}
    assert not [e for e in requests if e.verb in READS and e.acting_as]
