"""From a Tenant to desired objects: order, identity, tracking, revisions, secrets."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.tenancy import Tenant
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.resources.desired import PatchStrategy
from ctrlruntime.resources.revision import revision
from internal.tenancy.objects.builder import Build, build
from internal.tenancy.objects.graph import GraphError
from internal.tenancy.objects.variables import VariablesError, variables_of
from internal.tenancy.rendering import Renderer
from internal.tenancy.shared.labels import RESOURCE_ID
from internal.tenancy.shared.naming import (
    IllegalName,
    ResourceKey,
    check_uid,
    label_value,
    tenant_name,
)
from internal.tenancy.shared.policies import (
    DELETION_POLICY,
    TENANT,
    TENANT_NAMESPACE,
    OrphanReason,
    adoption_patch,
    deletion_policy,
    is_orphaned,
    orphan_patch,
)
from internal.tenancy.shared.privileges import ForeignNamespaces, Privileges

SECRET = {"apiVersion": "v1", "kind": "Secret"}
WIDGET = RESTMapping(GroupVersionKind("acme.io", "v1", "Widget"), "widgets", namespaced=True)


def mappings(kind: GroupVersionKind) -> RESTMapping | None:
    return WIDGET if kind == WIDGET.gvk else BUILTIN.get(kind)


def config_map(name: str, **more: object) -> dict[str, Any]:
    return {
        "id": name,
        "nameTemplate": f"{{{{ .uid }}}}-{name}",
        "spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"uid": "{{ .uid }}"}},
        **more,
    }


def tenant(**spec: object) -> Tenant:
    return Tenant.from_manifest(
        {
            "apiVersion": "tenancy.ctrlruntime.dev/v1",
            "kind": "Tenant",
            "metadata": {"name": "acme-web", "namespace": "tenants", "uid": "u-1"},
            "spec": {
                "uid": "acme",
                "templateRef": "web",
                "registryId": "shop",
                "variables": {"activate": "1", "planId": "pro"},
                **spec,
            },
        }
    )


async def built(
    renderer: Renderer, *, sensitive: Mapping[str, str] | None = None, **spec: object
) -> Build:
    found = tenant(**spec)
    return await build(
        found,
        variables_of(found, sensitive),
        renderer,
        mappings,
        Privileges(
            foreign=ForeignNamespaces(patterns=frozenset({"*"})),
            kinds=frozenset({GroupKind("no.io", "Y")}),
        ),
    )


@pytest.mark.criterion("BUILD-ORDER")
async def test_objects_come_in_the_order_of_the_graph_with_their_level(renderer: Renderer) -> None:
    made = await built(
        renderer,
        services=[config_map("c", dependIds=["b"])],
        configMaps=[config_map("b", dependIds=["a"]), config_map("a")],
    )
    assert [(item.resource.id, item.level) for item in made.resources] == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
    ]
    assert [item.desired.ordinal for item in made.resources if item.desired] == [0, 1, 2]
    assert [[item.resource.id for item in level] for level in made.levels()] == [
        ["a"],
        ["b"],
        ["c"],
    ]
    with pytest.raises(GraphError):
        await built(renderer, configMaps=[config_map("a", dependIds=["a"])])


@pytest.mark.criterion("BUILD-OBJECT")
async def test_a_built_object_is_whole_and_its_revision_is_that_of_its_content(
    renderer: Renderer,
) -> None:
    made = await built(
        renderer,
        configMaps=[
            config_map(
                "cm",
                labelsTemplate={"plan": "{{ .planId }}"},
                annotationsTemplate={"from": "{{ .registryId }}/{{ .hubId }}/{{ .templateRef }}"},
                conflictPolicy="Force",
                patchStrategy="merge",
                ignoreFields=["$.data.uid"],
            )
        ],
    )
    desired = made.resources[0].desired
    assert desired is not None
    assert desired.manifest == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "acme-cm",
            "namespace": "tenants",
            "labels": {"plan": "pro"},
            "annotations": {"from": "shop/shop/web"},
        },
        "data": {"uid": "acme"},
    }
    assert desired.revision == revision(desired.manifest)
    assert desired.strategy is PatchStrategy.MERGE
    assert desired.force
    assert desired.reference
    assert desired.ignored == ("data.uid",)
    assert dict(desired.labels) == {}
    assert dict(desired.annotations) == {DELETION_POLICY: "Delete", RESOURCE_ID: "cm"}
    assert str(made.resources[0].key) == "ConfigMap/tenants/acme-cm@cm"


@pytest.mark.criterion("BUILD-TRACKING")
@pytest.mark.parametrize(
    ("more", "kind", "reference"),
    [
        ({}, "ConfigMap", True),
        ({"deletionPolicy": "Retain"}, "ConfigMap", False),
        ({"targetNamespace": "{{ .uid }}-ns"}, "ConfigMap", False),
        ({"targetNamespace": "tenants"}, "ConfigMap", True),
        ({}, "Namespace", False),
    ],
)
async def test_references_in_the_tenants_namespace_and_labels_elsewhere(
    renderer: Renderer, more: dict[str, Any], kind: str, reference: bool
) -> None:
    resource = config_map("x", **more)
    resource["spec"] = {"apiVersion": "v1", "kind": kind}
    desired = (await built(renderer, manifests=[resource])).resources[0].desired
    assert desired is not None
    assert desired.reference is reference
    tracking = {TENANT: "acme-web", TENANT_NAMESPACE: "tenants"}
    assert dict(desired.labels) == ({} if reference else tracking)
    assert ("namespace" in desired.manifest["metadata"]) is (kind != "Namespace")


@pytest.mark.criterion("BUILD-SECRET")
async def test_string_data_becomes_data_and_what_the_server_sets_is_dropped(
    renderer: Renderer,
) -> None:
    spec = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "uid": "1", "resourceVersion": "2", "managedFields": []},
        "data": {"old": "eA=="},
        "stringData": {"user": "{{ .uid }}", "n": "{{ 1 | int }}"},
        "status": {},
    }
    made = await built(renderer, secrets=[{"id": "s", "spec": spec}])
    desired = made.resources[0].desired
    assert desired is not None
    assert desired.manifest["metadata"] == {"name": "s", "namespace": "tenants"}
    assert desired.manifest["data"] == {
        "old": "eA==",
        "user": base64.b64encode(b"acme").decode(),
        "n": base64.b64encode(b"1").decode(),
    }
    assert not {"stringData", "status"} & set(desired.manifest)


@pytest.mark.criterion("BUILD-PROBLEMS")
@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        (config_map("x", nameTemplate="{{ .nope }}"), "metadata.name: the variable 'nope'"),
        ({"id": "x", "spec": {"apiVersion": "v1", "kind": "ConfigMap"}}, "no metadata.name"),
        (
            config_map("x", spec={**SECRET, "data": "text", "stringData": {"a": "b"}}),
            "data must be a mapping of texts",
        ),
        ({"id": "x", "spec": {"kind": "ConfigMap"}}, "apiVersion and kind"),
        (
            {"id": "x", "spec": {"apiVersion": "no.io/v1", "kind": "Y", "metadata": {"name": "y"}}},
            "does not serve no.io/v1 Y",
        ),
        (config_map("x", nameTemplate="a/b"), "not a valid name"),
        (config_map("x", ignoreFields=["$.["]), "not a JSONPath"),
        (config_map("x", nameTemplate="{{ .uid }}-good"), "same object as the resource 'good'"),
    ],
)
async def test_a_bad_resource_is_a_problem_of_its_own(
    renderer: Renderer, resource: dict[str, Any], problem: str
) -> None:
    made = await built(renderer, configMaps=[config_map("good"), resource])
    good, bad = made.resources
    assert good.desired is not None
    assert bad.desired is None
    assert problem in bad.problem


@pytest.mark.criterion("SENSITIVE")
async def test_sensitive_variables_reach_bodies_and_never_names(renderer: Renderer) -> None:
    hidden = {"secretName": "s", "names": ["password"], "revision": "1"}
    spec = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "{{ .uid }}"},
        "stringData": {"p": "{{ .password }}"},
    }
    leak = config_map("leak", nameTemplate="x-{{ .password | lower }}")
    made = await built(
        renderer,
        sensitive={"password": "hunter2 {{ uid }}"},
        sensitiveVariables=hidden,
        secrets=[{"id": "s", "spec": spec}],
        configMaps=[leak],
    )
    problems = {item.resource.id: item.problem for item in made.resources}
    assert problems["leak"] == (
        "metadata.name: it uses the sensitive variable 'password', whose value would be seen"
    )
    desired = next(item.desired for item in made.resources if item.resource.id == "s")
    assert desired is not None
    assert desired.manifest["metadata"]["name"] == "acme"
    assert base64.b64decode(desired.manifest["data"]["p"]) == b"hunter2 {{ uid }}"
    assert "hunter2" not in repr(
        variables_of(tenant(sensitiveVariables=hidden), {"password": "hunter2"})
    )


@pytest.mark.criterion("SENSITIVE")
def test_missing_sensitive_values_are_named() -> None:
    with pytest.raises(VariablesError, match="lacks password"):
        variables_of(tenant(sensitiveVariables={"secretName": "s", "names": ["password"]}), {})


@pytest.mark.criterion("BUILD-STABLE")
async def test_building_twice_gives_the_same(renderer: Renderer) -> None:
    resources = [config_map("a"), config_map("b")]
    first = await built(renderer, configMaps=resources)
    assert await built(renderer, configMaps=resources) == first


@pytest.mark.criterion("NAME-KEY")
@given(
    st.sampled_from(["", "apps", "acme.example.io"]),
    st.from_regex(r"[A-Z][a-zA-Z]{0,8}", fullmatch=True),
    st.sampled_from(["", "ns"]),
    st.from_regex(r"[a-z0-9]([a-z0-9.:-]{0,8}[a-z0-9])?", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", fullmatch=True),
)
def test_a_resource_key_survives_being_written(
    group: str, kind: str, namespace: str, name: str, resource: str
) -> None:
    key = ResourceKey(GroupKind(group, kind), namespace, name, resource)
    assert ResourceKey.parse(str(key)) == key


@pytest.mark.criterion("NAME-KEY")
@pytest.mark.parametrize("text", ["", "a", "a/b@c", "/ns/n@i", "K/ns/@i", "K/a/b/c@i"])
def test_what_is_no_resource_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a resource key"):
        ResourceKey.parse(text)


@pytest.mark.criterion("NAME-UID")
@given(st.text(max_size=70))
def test_a_uid_is_taken_as_it_is_or_refused(uid: str) -> None:
    try:
        name = tenant_name(uid, "web")
    except IllegalName:
        return
    assert name == f"{uid}-web"
    assert check_uid(uid) == uid
    assert uid.isascii()


@pytest.mark.criterion("NAME-LABEL")
@given(
    st.from_regex(r"[a-z]{60,80}", fullmatch=True), st.from_regex(r"[a-z]{60,80}", fullmatch=True)
)
def test_long_names_make_short_and_different_labels(one: str, two: str) -> None:
    assert len(label_value(one)) <= 63
    assert (label_value(one) == label_value(two)) is (one == two)


@pytest.mark.criterion("ORPHANS")
def test_orphan_markers_are_set_and_taken_away() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    patch = orphan_patch(OrphanReason.TENANT_DELETED, now)["metadata"]
    assert is_orphaned(patch["labels"])
    assert patch["labels"][TENANT] is None
    assert sorted(patch["annotations"].values()) == ["2026-01-02T03:04:05Z", "TenantDeleted"]
    taken = adoption_patch()["metadata"]
    assert {key for key, value in patch["labels"].items() if value} == set(taken["labels"])
    assert set(patch["annotations"]) == set(taken["annotations"])
    assert deletion_policy({}) is None
    assert deletion_policy({DELETION_POLICY: "Retain"}) == "Retain"
