"""Rights that are missing: said with the role to add, nobody else suffers, and no tenant polls."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.envtest.proxy import LoseReply, Match
from internal.tenancy.shared.missing_permissions import (
    AGGREGATE,
    Grants,
    impersonation,
    missing,
    needed,
)
from manager.controllers.tenancy_options import TenancyOptions
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map, mapping

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER = "manager"
LIMITS = mapping("v1", "LimitRange")
ENDPOINTS = mapping("v1", "Endpoints")
ROLE = BUILTIN[GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")]
DENIED_KINDS = ("endpoints", "limitranges", "replicationcontrollers", "resourcequotas")
VERBS = ["create", "delete", "list", "patch", "update", "watch"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """A manager with exactly the roles of the installation."""
    folder: Path = tmp_path_factory.mktemp("harness")
    kinds = ("Endpoints", "LimitRange", "ReplicationController", "ResourceQuota")
    allowed = frozenset(GroupKind("", kind) for kind in kinds)
    options = TenancyOptions(sqlite_root=folder, allow_kinds=allowed)
    async with TenancyHarness.start(folder, options=options, denied=DENIED_KINDS) as harness:
        yield harness


def custom(kind: str) -> dict[str, Any]:
    """A template entry of a kind that the manager has no right to."""
    return {
        "id": "other",
        "nameTemplate": "{{ .uid }}-other",
        "spec": {"apiVersion": "v1", "kind": kind},
    }


async def grant(harness: TenancyHarness, name: str, plural: str, verbs: list[str]) -> None:
    """The ClusterRole that the condition asks for."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {AGGREGATE: "true"}},
        "rules": [{"apiGroups": [""], "resources": [plural], "verbs": verbs}],
    }
    await harness.client.apply(role, field_manager="test", force=True)


@pytest.mark.criterion("grants")
async def test_a_kind_without_a_grant_is_named_with_the_role_to_add(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b")
    await fleet.registry()
    await fleet.template(
        manifests=[custom("LimitRange")], configMaps=[config_map("cm", "{{ .uid }}")]
    )
    for kind, name in ((TenantTemplate, "app"), (Tenant, "a-app"), (Tenant, "b-app")):
        told = await fleet.until(kind, name, "PermissionsGranted", "False", "MissingPermission")
        command = told.message.partition("To allow it: ")[2]
        first, second = (shlex.split(part) for part in command.split(" && "))
        assert first[:4] == ["kubectl", "create", "clusterrole", "manager-limitranges"]
        assert f"--verb={','.join(VERBS)}" in first
        assert "--resource=limitranges" in first
        assert second[-1] == f"{AGGREGATE}=true"
    await fleet.there(CONFIG_MAP, "a")  # what is granted is there all the same
    await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed", message="limitranges")
    mark = harness.mark()
    await harness.idle(within=1.0)
    await grant(harness, "limits", "limitranges", VERBS)
    await fleet.ready("a-app", "b-app")
    for kind, name in ((TenantTemplate, "app"), (Tenant, "a-app"), (Tenant, "b-app")):
        await fleet.until(kind, name, "PermissionsGranted", "True", "Granted")
    assert await fleet.get(LIMITS, "b-other")
    asked = harness.environment.proxy.log.since(mark).select(user=USER)
    assert asked.select(resource="limitranges", code=403).total < 12  # by the informer alone


@pytest.mark.criterion("grants")
async def test_of_many_tenants_one_retries_for_a_right_to_write(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    names = [f"t{number}" for number in range(12)]
    fleet.rows(*names)
    await fleet.registry()
    await grant(harness, "endpoints", "endpoints", ["get", "list", "watch"])
    mark = harness.mark()
    await fleet.template(manifests=[custom("Endpoints")])
    for name in names:
        await fleet.until(Tenant, f"{name}-app", "PermissionsGranted", "False")
    told = await fleet.until(TenantTemplate, "app", "PermissionsGranted", "False")
    assert told.message.startswith("The manager may not patch endpoints. To allow it: ")
    await grant(harness, "endpoints", "endpoints", VERBS)
    await fleet.ready(*(f"{name}-app" for name in names))
    refused = harness.environment.proxy.log.since(mark).select(user=USER, code=403).total
    assert refused <= 12 + 6  # each at most once, and then one for all


@pytest.mark.criterion("grants")
async def test_other_tenants_do_not_wait_for_those_without_a_grant(harness: TenancyHarness) -> None:
    stuck, free = await Fleet.make(harness), await Fleet.make(harness)
    stuck.rows(*(f"s{number}" for number in range(30)))
    await stuck.registry()
    await stuck.template(manifests=[custom("ReplicationController")])
    stuck_tenants = [f"s{number}-app" for number in range(30)]
    for name in stuck_tenants:
        await stuck.until(Tenant, name, "PermissionsGranted", "False")
    mark = harness.mark()
    free.rows("a")
    await free.registry()
    await free.template(configMaps=[config_map("cm", "{{ .uid }}")])
    await free.ready("a-app")
    # All the while those without a grant keep no worker: they ask for nothing again but by the one that probes.
    requests = harness.environment.proxy.log.entries(mark)
    refused = [e for e in requests if e.code == 403 and e.namespace == stuck.namespace]
    assert len(refused) < len(stuck_tenants)
    for name in stuck_tenants:
        condition = await stuck.condition(Tenant, name, "PermissionsGranted")
        assert condition is not None
        assert condition.status == "False"


@pytest.mark.criterion("grants")
async def test_a_tenant_that_never_got_its_grant_can_go(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    spec = {"uid": "a", "templateRef": "x", "manifests": [custom("ResourceQuota")]}
    await fleet.create(Tenant, "a", spec)
    await fleet.until(Tenant, "a", "PermissionsGranted", "False", "MissingPermission")
    await fleet.delete(Tenant, "a")
    await fleet.gone(Tenant, "a")


@pytest.mark.criterion("grants")
async def test_a_right_to_read_one_object_that_came_back_is_found_out(
    harness: TenancyHarness,
) -> None:
    """The kind is watched all the while, so no informer tries; a server that restarts refuses so, too."""
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await grant(harness, "endpoints", "endpoints", VERBS)
    await fleet.template(manifests=[custom("Endpoints")])
    await fleet.ready("a-app")
    await grant(harness, "endpoints", "endpoints", [verb for verb in VERBS if verb != "list"])
    await harness.eventually(lambda: may_list(harness, fleet.namespace), lambda may: not may)
    written = Match(user=USER, verb="write", resource="endpoints", namespace=fleet.namespace)
    harness.environment.proxy.add(LoseReply(), written, times=1)
    await fleet.template(manifests=[{**custom("Endpoints"), "labelsTemplate": {"new": "x"}}])
    said = await fleet.until(Tenant, "a-app", "PermissionsGranted", "False", message="may not list")
    assert "endpoints" in said.message
    await grant(harness, "endpoints", "endpoints", VERBS)
    await fleet.until(Tenant, "a-app", "PermissionsGranted", "True")
    await fleet.ready("a-app")


async def may_list(harness: TenancyHarness, namespace: str) -> bool:
    """Whether the manager may list the kind now."""
    try:
        await harness.environment.client(USER).list(ENDPOINTS, namespace)
    except Forbidden:
        return False
    return True


DENIED = (
    'configmaps "x" is forbidden: User "system:serviceaccount:ns:me" cannot patch resource '
    '"configmaps" in API group "" in the namespace "ns"'
)


def served(kind: str) -> RESTMapping:
    return mapping("v1", kind)


async def test_only_want_of_a_right_is_a_missing_grant() -> None:
    config_maps = served("ConfigMap")
    assert missing(Forbidden(DENIED), config_maps) == needed(config_maps)
    quota = 'configmaps "x" is forbidden: exceeded quota: q, requested: count/configmaps=1'
    assert missing(Forbidden(quota), config_maps) is None
    assert missing(Forbidden(DENIED), served("Secret")) is None
    assert missing(None, config_maps) is None


@pytest.mark.parametrize(
    "refusal",
    [
        # Since 1.36, to who has no right to impersonate, and to who has one for other requests only.
        (
            'configmaps "x" is forbidden: User "system:serviceaccount:ns:me" cannot '
            'impersonate-on:serviceaccount:patch resource "configmaps" in API group "" in the namespace "ns"'
        ),
        (
            'serviceaccounts.authentication.k8s.io "shop" is forbidden: User "system:serviceaccount:ns:me" '
            'cannot impersonate:serviceaccount resource "serviceaccounts" in API group '
            '"authentication.k8s.io" in the namespace "ns"'
        ),
        # Before, and to who impersonated with the right `impersonate` before.
        (
            'serviceaccounts "shop" is forbidden: User "system:serviceaccount:ns:me" cannot impersonate '
            'resource "serviceaccounts" in API group "" in the namespace "ns"'
        ),
    ],
)
async def test_a_missing_right_to_impersonate_is_found_in_every_form(refusal: str) -> None:
    grant = missing(Forbidden(refusal), served("ConfigMap"), account="ns/shop", namespace="ns")
    assert grant == impersonation("ns/shop")
    assert grant.advice == (
        "The manager may not impersonate the service account ns/shop. To allow it: "
        "kubectl -n ns create role impersonate-shop --verb=impersonate --resource=serviceaccounts "
        "--resource-name=shop && kubectl -n ns create rolebinding impersonate-shop "
        "--role=impersonate-shop --serviceaccount=ns:me"
    )


async def test_when_the_one_that_tries_goes_another_takes_over() -> None:
    from ctrlruntime.queue import Request

    woken: list[Request] = []
    grants = Grants(lambda request, _why: woken.append(request), lambda _template: None)
    one, two, template = (
        Request("one", namespace="ns"),
        Request("two", namespace="ns"),
        Request("template", namespace="ns"),
    )
    grant = missing(Forbidden(DENIED), served("ConfigMap"))
    assert grant is not None
    assert grants.report(one, template, [grant]) == 1.0
    assert grants.denied(one, grant) is None
    assert grants.denied(two, grant) == grant
    assert grants.report(two, template, [grant]) is None
    assert grants.report(one, template, [grant]) == 2.0
    assert grants.of_template(template) == {grant}
    grants.forget(one)
    assert woken == [two]
    assert grants.denied(two, grant) is None
    assert grants.report(two, template, [grant]) == 1.0
    assert grants.report(two, template, [grant], unseen=[grant]) is None, "an informer tries"
    grants.forget(two)
    assert grants.of_template(template) == frozenset()
