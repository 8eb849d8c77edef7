"""What templates may not do: reach beyond their namespace, hand out rights, or become the manager."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.envtest.proxy import Mark
from internal.tenancy.shared.privileges import (
    ForeignNamespaces,
    PrivilegeRefused,
    Privileges,
    parse_kind,
)
from manager.controllers.tenancy_options import TenancyOptions
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map

LOOP = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """A manager with the options it has when nobody says anything."""
    folder = tmp_path_factory.mktemp("harness")
    options = TenancyOptions(sqlite_root=folder, protected_namespaces=frozenset({"the-managers"}))
    async with TenancyHarness.start(folder, options=options) as harness:
        yield harness


def entry(api_version: str, kind: str, **body: object) -> dict[str, Any]:
    """A template entry of any kind."""
    spec = {"apiVersion": api_version, "kind": kind, **body}
    return {"id": "it", "nameTemplate": "{{ .uid }}-it", "spec": spec}


RBAC = "rbac.authorization.k8s.io/v1"
REFUSED = (
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "certificates.k8s.io",
    "rbac.authorization.k8s.io",
    "cloud.ctrlruntime.dev",
    "cosmos.ctrlruntime.dev",
    "example.com",
)
ATTACKS = {
    "a role for oneself": entry(RBAC, "Role", rules=[]),
    "somebody's role, bound": entry(RBAC, "RoleBinding", roleRef={}, subjects=[]),
    "the administrator's role, bound": entry(RBAC, "ClusterRoleBinding", roleRef={}),
    "a webhook on everything": entry(
        "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", webhooks=[]
    ),
    "another webhook": entry(
        "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=[]
    ),
    "a definition with a webhook": entry(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", spec={}
    ),
    "an API server in between": entry("apiregistration.k8s.io/v1", "APIService", spec={}),
    "a certificate for a user": entry(
        "certificates.k8s.io/v1", "CertificateSigningRequest", spec={}
    ),
    "a disk of the machine": entry("v1", "PersistentVolume", spec={"hostPath": {"path": "/"}}),
    "a namespace without restrictions": entry("v1", "Namespace"),
    "a token of an account": entry(
        "v1",
        "Secret",
        type="kubernetes.io/service-account-token",
        metadata={"annotations": {"kubernetes.io/service-account.name": "default"}},
    ),
    "an instance of the namespace": entry("cloud.ctrlruntime.dev/v1", "Instance", spec={}),
    "a set of nodes": entry("cosmos.ctrlruntime.dev/v1", "CosmosFullNode", spec={}),
    "a registry": entry("tenancy.ctrlruntime.dev/v1", "TenantRegistry", spec={}),
    "a limit of the namespace": entry("v1", "LimitRange", spec={}),
    "a record of revisions": entry("apps/v1", "ControllerRevision", revision=1),
    "a kind of others": entry("example.com/v1", "Widget", spec={}),
    "something in another namespace": {
        **entry("v1", "ConfigMap"),
        "targetNamespace": "kube-system",
    },
    "the same, said in the manifest": entry(
        "v1", "ConfigMap", metadata={"namespace": "kube-system"}
    ),
    "something in the manager's namespace": {
        **entry("v1", "ConfigMap"),
        "targetNamespace": "the-managers",
    },
}


OURS = {
    "events.events.k8s.io",
    "tenantregistries.tenancy.ctrlruntime.dev",
    "tenants.tenancy.ctrlruntime.dev",
    "tenanttemplates.tenancy.ctrlruntime.dev",
}


def written(fleet: Fleet, since: Mark) -> set[str]:
    """What the manager wrote in the fleet's namespace."""
    return {each.split()[1].partition("/")[0] for each in fleet.writes(since)}


@LOOP
@pytest.mark.criterion("refused")
@pytest.mark.matrix
@pytest.mark.parametrize("attack", ATTACKS)
async def test_an_attack_is_refused_in_the_template(harness: TenancyHarness, attack: str) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a")
    await fleet.registry()
    mark = harness.mark()
    await fleet.template(
        manifests=[ATTACKS[attack]], configMaps=[config_map("ok", "{{ .uid }}-ok")]
    )
    told = await fleet.until(TenantTemplate, "app", "Valid", "False", "PrivilegeRefused")
    assert told.message.startswith("it: ")
    assert await fleet.tenants() == []  # what is refused is not rolled out
    assert written(fleet, mark) <= OURS


@LOOP
@pytest.mark.criterion("refused")
@pytest.mark.parametrize("attack", ATTACKS)
async def test_an_attack_by_a_tenant_that_no_template_made_is_refused_too(
    harness: TenancyHarness, attack: str
) -> None:
    fleet = await Fleet.make(harness)
    mark = harness.mark()
    await fleet.create(
        Tenant,
        "a",
        {
            "uid": "a",
            "templateRef": "none",
            "manifests": [ATTACKS[attack]],
            "configMaps": [config_map("ok", "{{ .uid }}-ok")],
        },
    )
    told = await fleet.until(Tenant, "a", "Ready", "False", "ResourcesFailed")
    assert "it (" in told.message
    await fleet.there(CONFIG_MAP, "a-ok")  # the others are none the worse for it
    assert written(fleet, mark) <= OURS | {"configmaps"}
    seen = {e.resource for e in harness.environment.proxy.log.entries(mark) if e.user == "manager"}
    assert not {name for name in seen if name.partition(".")[2] in REFUSED}


@LOOP
@pytest.mark.criterion("refused")
async def test_a_namespace_that_only_the_row_decides_is_refused_when_it_is_known(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", plan=fleet.namespace)
    fleet.row("b", plan="kube-system")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "x", targetNamespace="{{ .planId }}")])
    await fleet.ready("a-app")
    told = await fleet.until(Tenant, "b-app", "Ready", "False", "ResourcesFailed")
    assert "'kube-system' is protected" in told.message


@LOOP
@pytest.mark.criterion("refused", "H-D1")
async def test_nothing_is_written_to_the_managers_own_namespace_even_by_force(
    harness: TenancyHarness,
) -> None:
    fleet = Fleet(harness, "the-managers")
    await harness.make_namespace(fleet.namespace)
    spec = {"uid": "a", "templateRef": "x", "configMaps": [config_map("cm", "cm")]}
    await fleet.create(Tenant, "a", spec)
    told = await fleet.until(Tenant, "a", "Ready", "False", "ResourcesFailed")
    assert "the manager's own namespace" in told.message


class TestOptions:
    def test_a_kind_that_is_named_is_allowed_and_no_other(self) -> None:
        role = GroupKind("rbac.authorization.k8s.io", "Role")
        privileges = Privileges(kinds=frozenset({role}))
        privileges.check_kind(role, namespaced=True)
        with pytest.raises(PrivilegeRefused, match=r"--allow-kind RoleBinding\.rbac"):
            privileges.check_kind(
                GroupKind("rbac.authorization.k8s.io", "RoleBinding"), namespaced=True
            )

    @pytest.mark.parametrize("namespaced", [True, False])
    def test_custom_kinds_need_the_option(self, namespaced: bool) -> None:
        widget = GroupKind("example.com", "Widget")
        with pytest.raises(PrivilegeRefused, match=r"--allow-kind Widget\.example"):
            Privileges().check_kind(widget, namespaced=namespaced)
        Privileges(kinds=frozenset({widget})).check_kind(widget, namespaced=namespaced)

    def test_other_namespaces_can_be_allowed(self) -> None:
        foreign = ForeignNamespaces.parse(frozenset({"there", "team-*"}))
        privileges = Privileges(foreign=foreign, protected=frozenset({"mine"}))
        privileges.check_place("there", "here")
        privileges.check_place("team-1", "here")
        privileges.check_kind(GroupKind("", "Namespace"), namespaced=False)
        with pytest.raises(PrivilegeRefused, match="not the tenant's own"):
            privileges.check_place("elsewhere", "here")
        with pytest.raises(PrivilegeRefused, match="manager's own"):
            privileges.check_place("mine", "here")

    def test_kinds_are_written_as_everywhere(self) -> None:
        assert parse_kind("PersistentVolume") == GroupKind("", "PersistentVolume")
        assert parse_kind("Role.rbac.authorization.k8s.io").group == "rbac.authorization.k8s.io"
        for wrong in ("roles.rbac.authorization.k8s.io", "", ".x", "Role/x"):
            with pytest.raises(ValueError, match="is not a kind"):
                parse_kind(wrong)
