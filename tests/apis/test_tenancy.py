"""The tenancy kinds: the seed's manifests, the reference's fields, the generated CRDs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from apis.tenancy import (
    LIST_KINDS,
    ResourceLists,
    Tenant,
    TenantRegistry,
    TenantTemplate,
    TResource,
    resource_lists,
)
from apis.tenancy.tenanttemplate import REGISTRY_IS_FIXED
from ctrlruntime.api import Resource
from ctrlruntime.generate import crd_files, drift
from ctrlruntime.generate.discovery import find_kinds, load
from ctrlruntime.json import Json

CONFIG = Path(__file__).parents[2] / "config"

REGISTRY: dict[str, Any] = yaml.safe_load("""
apiVersion: tenancy.ctrlruntime.dev/v1
kind: TenantRegistry
metadata: {name: my-saas-registry, namespace: default}
spec:
  source:
    type: mysql
    mysql:
      host: mysql.default.svc.cluster.local
      port: 3306
      database: tenants
      table: tenant_data
      username: tenant_reader
      passwordRef: {name: mysql-secret, key: password}
    syncInterval: 30s
  valueMappings: {uid: tenant_id, hostOrUrl: domain, activate: is_active}
  extraValueMappings: {planId: subscription_plan, deployImage: container_image}
""")

TEMPLATE: dict[str, Any] = yaml.safe_load("""
apiVersion: tenancy.ctrlruntime.dev/v1
kind: TenantTemplate
metadata: {name: web-app, namespace: default}
spec:
  registryId: my-saas-registry
  deployments:
    - id: app-deployment
      nameTemplate: "{{ .uid }}-app"
      spec:
        apiVersion: apps/v1
        kind: Deployment
        spec: {replicas: 2}
  services:
    - id: app-service
      dependIds: [app-deployment]
      waitForReady: true
      spec: {apiVersion: v1, kind: Service}
""")

TENANT: dict[str, Any] = yaml.safe_load("""
apiVersion: tenancy.ctrlruntime.dev/v1
kind: Tenant
metadata: {name: acme-web-app, namespace: default}
spec: {uid: acme, templateRef: web-app, registryId: my-saas-registry}
status:
  desiredResources: 10
  readyResources: 10
  failedResources: 0
  appliedResources:
    - "Deployment/default/acme-app@app-deployment"
    - "Service/default/acme-svc@app-service"
  conditions:
    - type: Ready
      status: "True"
      reason: AllReady
      message: ""
      lastTransitionTime: "2024-01-15T10:30:00Z"
""")

KINDS: list[tuple[Any, dict[str, Any]]] = [
    (TenantRegistry, REGISTRY),
    (TenantTemplate, TEMPLATE),
    (Tenant, TENANT),
]
each_kind = pytest.mark.parametrize(
    ("kind", "manifest"), KINDS, ids=lambda v: getattr(v, "__name__", "")
)

LISTS = [
    "serviceAccounts",
    "deployments",
    "statefulSets",
    "daemonSets",
    "services",
    "ingresses",
    "configMaps",
    "secrets",
    "persistentVolumeClaims",
    "jobs",
    "cronJobs",
    "podDisruptionBudgets",
    "networkPolicies",
    "horizontalPodAutoscalers",
    "namespaces",
    "manifests",
]


def schema_of(kind: type[Resource[Any, Any]]) -> Json:
    return kind.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def with_source(**source: object) -> dict[str, Any]:
    spec = {**REGISTRY["spec"], "source": {**REGISTRY["spec"]["source"], **source}}
    return {**REGISTRY, "spec": spec}


@each_kind
def test_the_manifests_of_the_seed_are_read_and_written_unchanged(
    kind: type[Resource[Any, Any]], manifest: dict[str, Any]
) -> None:
    assert kind.from_manifest(manifest).to_manifest() == manifest


@each_kind
def test_the_manifests_of_the_seed_are_valid(
    kind: type[Resource[Any, Any]], manifest: dict[str, Any]
) -> None:
    assert jsonschema_rs.is_valid(schema_of(kind), manifest)


def test_the_crds_on_disk_are_those_of_the_code() -> None:
    files = crd_files(find_kinds(load(["apis.tenancy"])))
    assert len(files) == 3
    assert drift(files, CONFIG) == ""


@pytest.mark.parametrize(
    "path", sorted((CONFIG / "samples").glob("tenant*.yaml")), ids=lambda p: p.name
)
def test_the_samples_are_valid(path: Path) -> None:
    kinds = {kind.gvk().kind: kind for kind, _ in KINDS}
    for manifest in yaml.safe_load_all(path.read_text()):
        kind: Any = kinds.get(manifest["kind"])
        if kind is not None:
            kind.from_manifest(manifest)
            jsonschema_rs.validate(schema_of(kind), manifest)


class TestRegistry:
    def test_defaults(self) -> None:
        source = {
            "type": "mysql",
            "mysql": {"host": "h", "username": "u", "database": "d", "table": "t"},
        }
        spec = {"source": source, "valueMappings": {"uid": "id", "activate": "on"}}
        registry = TenantRegistry.from_manifest({"spec": spec})
        mysql = registry.spec.source.mysql
        assert mysql is not None
        assert (mysql.port, mysql.page_size, mysql.connect_timeout_seconds) == (3306, 1000, 5)
        assert registry.spec.source.sync_period.total_seconds() == 30
        assert registry.spec.deletion_guard.max_delete_percent == 20
        properties = schema_of(TenantRegistry)["properties"]["spec"]["properties"]
        assert properties["source"]["properties"]["syncInterval"]["default"] == "30s"
        assert properties["deletionGuard"]["default"] == {}

    def test_a_mapping_is_a_column_or_an_object_that_can_be_sensitive(self) -> None:
        spec = {
            **REGISTRY["spec"],
            "extraValueMappings": {"plain": "a", "secret": {"column": "b", "sensitive": True}},
        }
        manifest = {**REGISTRY, "spec": spec}
        registry = TenantRegistry.from_manifest(manifest)
        columns = registry.spec.extra_columns()
        assert (columns["plain"].column, columns["plain"].sensitive) == ("a", False)
        assert (columns["secret"].column, columns["secret"].sensitive) == ("b", True)
        assert registry.to_manifest() == manifest
        assert jsonschema_rs.is_valid(schema_of(TenantRegistry), manifest)

    @pytest.mark.parametrize(
        "mapping", ["", "x" * 65, {"col": "x"}, {"column": "x", "sensitive": True, "more": 1}]
    )
    def test_a_mapping_of_another_form_is_not_valid(self, mapping: object) -> None:
        spec = {**REGISTRY["spec"], "extraValueMappings": {"v": mapping}}
        assert not jsonschema_rs.is_valid(schema_of(TenantRegistry), {**REGISTRY, "spec": spec})

    @pytest.mark.parametrize("interval", ["", "30", "1h30m", "-1s", "30 s", "1d", "99999999999s"])
    def test_a_sync_interval_is_a_whole_number_with_a_unit(self, interval: str) -> None:
        manifest = with_source(syncInterval=interval)
        assert not jsonschema_rs.is_valid(schema_of(TenantRegistry), manifest)
        with pytest.raises(ValidationError, match="syncInterval"):
            TenantRegistry.from_manifest(manifest)

    @pytest.mark.parametrize("source", [{"type": "oracle"}, {"type": None}])
    def test_an_unknown_source_is_not_valid(self, source: dict[str, Any]) -> None:
        assert not jsonschema_rs.is_valid(schema_of(TenantRegistry), with_source(**source))

    def test_a_source_must_be_described_by_the_field_of_its_type(self) -> None:
        source = schema_of(TenantRegistry)["properties"]["spec"]["properties"]["source"]
        rules = {rule["rule"]: rule["fieldPath"] for rule in source["x-kubernetes-validations"]}
        assert rules == {
            "self.type != 'mysql' || has(self.mysql)": ".mysql",
            "self.type != 'postgresql' || has(self.postgresql)": ".postgresql",
            "self.type != 'sqlite' || has(self.sqlite)": ".sqlite",
        }


class TestResources:
    def test_both_specs_have_the_same_sixteen_lists_by_id(self) -> None:
        for kind in (TenantTemplate, Tenant):
            properties = schema_of(kind)["properties"]["spec"]["properties"]
            for name in LISTS:
                assert properties[name]["x-kubernetes-list-type"] == "map"
                assert properties[name]["x-kubernetes-list-map-keys"] == ["id"]
        assert {field.alias for field in ResourceLists.model_fields.values()} == set(LISTS)
        assert {*LIST_KINDS, "manifests"} == set(LISTS)

    def test_lists_are_walked_in_their_order(self) -> None:
        resource = {"id": "x", "spec": {}}
        lists = ResourceLists.model_validate({name: [resource] for name in reversed(LISTS)})
        assert [name for name, _ in resource_lists(lists)] == LISTS

    def test_defaults_of_a_resource(self) -> None:
        items = schema_of(TenantTemplate)["properties"]["spec"]["properties"]["jobs"]["items"]
        defaults = {
            name: field["default"]
            for name, field in items["properties"].items()
            if "default" in field
        }
        assert defaults == {
            "skipOnDependencyFailure": True,
            "creationPolicy": "WhenNeeded",
            "deletionPolicy": "Delete",
            "conflictPolicy": "Stuck",
            "patchStrategy": "apply",
            "waitForReady": True,
            "timeoutSeconds": 300,
        }
        assert items["required"] == ["id", "spec"]
        assert items["properties"]["timeoutSeconds"]["maximum"] == 3600

    @pytest.mark.parametrize(
        "wrong",
        [
            {"id": ""},
            {"id": "a@b"},
            {"timeoutSeconds": 0},
            {"timeoutSeconds": 3601},
            {"readyWhen": [{"jsonPath": ""}]},
            {"readyWhen": [{"cel": ""}]},
            {"readyWhen": [{"cel": "a" * 1025}]},
            {"readyWhen": [{"jsonPath": "$.a"}] * 9},
            {"creationPolicy": "Never"},
            {"deletionPolicy": "Maybe"},
            {"conflictPolicy": "Win"},
            {"patchStrategy": "strategic"},
            {"spec": "text"},
        ],
    )
    def test_what_is_wrong_is_refused_by_both_the_type_and_the_crd(
        self, wrong: dict[str, Any]
    ) -> None:
        resource = {"id": "x", "spec": {}, **wrong}
        with pytest.raises(ValidationError):
            TResource.model_validate(resource)
        manifest = {**TEMPLATE, "spec": {"registryId": "r", "jobs": [resource]}}
        assert not jsonschema_rs.is_valid(schema_of(TenantTemplate), manifest)

    def test_the_registry_of_a_template_cannot_change(self) -> None:
        spec = schema_of(TenantTemplate)["properties"]["spec"]
        assert spec["properties"]["registryId"]["x-kubernetes-validations"] == [
            {"rule": "self == oldSelf", "message": REGISTRY_IS_FIXED}
        ]
        assert "registryId" in spec["required"]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (TenantRegistry, "Templates Desired Ready Failed Valid Conditions Age Message"),
        (
            TenantTemplate,
            "Registry Valid Total Updated Ready Failed Rollout Applied Conditions Age Message Usable",
        ),
        (
            Tenant,
            "UID Template Ready Desired Failed Skipped Conflicted Conditions Age Message",
        ),
    ],
)
def test_columns(kind: type[Resource[Any, Any]], columns: str) -> None:
    version = kind.crd()["spec"]["versions"][0]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == columns.split()
    assert version["subresources"] == {"status": {}}


texts = st.text(min_size=1, max_size=8)
resources = st.fixed_dictionaries(
    {"id": st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True), "spec": st.dictionaries(texts, texts)},
    optional={
        "nameTemplate": texts,
        "labelsTemplate": st.dictionaries(texts, texts, min_size=1),
        "dependIds": st.lists(texts, min_size=1),
        "creationPolicy": st.sampled_from(["Once", "WhenNeeded"]),
        "waitForReady": st.booleans(),
        "timeoutSeconds": st.integers(1, 3600),
    },
)
templates = st.dictionaries(st.sampled_from(LISTS), st.lists(resources, min_size=1, max_size=2))


@settings(suppress_health_check=[HealthCheck.too_slow])  # machines are, now and then
@given(templates)
def test_any_template_is_read_and_written_unchanged_and_valid(lists: dict[str, Any]) -> None:
    manifest = {**TEMPLATE, "spec": {"registryId": "r", **lists}}
    template = TenantTemplate.from_manifest(manifest)
    assert template.to_manifest() == manifest
    assert [name for name, _ in resource_lists(template.spec)] == [
        name for name in LISTS for _ in lists.get(name, [])
    ]
