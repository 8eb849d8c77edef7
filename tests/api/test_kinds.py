"""Names of kinds and their paths."""

from __future__ import annotations

import pytest

from ctrlruntime.api import BUILTIN, GroupKind, GroupVersionKind, RESTMapping, mapping_of

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
POD = GroupVersionKind("", "v1", "Pod")


def test_a_kind_is_parsed_from_the_two_fields_of_a_manifest() -> None:
    assert GroupVersionKind.parse("apps/v1", "Deployment") == DEPLOYMENT
    assert GroupVersionKind.of({"apiVersion": "v1", "kind": "Pod"}) == POD
    assert DEPLOYMENT.api_version == "apps/v1"
    assert POD.api_version == "v1"
    assert DEPLOYMENT.group_kind == GroupKind("apps", "Deployment")


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("", "Pod"), ("v1", ""), ("a/b/v1", "X"), ("/v1", "X"), ("apps/", "X")],
)
def test_what_is_not_a_kind_is_refused(api_version: str, kind: str) -> None:
    with pytest.raises(ValueError, match="not a kind"):
        GroupVersionKind.parse(api_version, kind)


@pytest.mark.parametrize("manifest", [{}, {"apiVersion": "v1"}, {"apiVersion": 1, "kind": "Pod"}])
def test_a_manifest_without_its_kind_is_refused(manifest: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="apiVersion and kind"):
        GroupVersionKind.of(manifest)


def test_kinds_read_like_kubectl_writes_them() -> None:
    assert str(GroupKind("apps", "Deployment")) == "Deployment.apps"
    assert str(GroupKind("", "ConfigMap")) == "ConfigMap"
    assert str(DEPLOYMENT) == "apps/v1, Kind=Deployment"


@pytest.mark.parametrize(
    ("gvk", "arguments", "path"),
    [
        (DEPLOYMENT, (None,), "/apis/apps/v1/deployments"),
        (DEPLOYMENT, ("ns",), "/apis/apps/v1/namespaces/ns/deployments"),
        (DEPLOYMENT, ("ns", "x"), "/apis/apps/v1/namespaces/ns/deployments/x"),
        (DEPLOYMENT, ("ns", "x", "status"), "/apis/apps/v1/namespaces/ns/deployments/x/status"),
        (POD, ("ns", "x"), "/api/v1/namespaces/ns/pods/x"),
        (GroupVersionKind("", "v1", "Namespace"), (None, "x"), "/api/v1/namespaces/x"),
        (GroupVersionKind("", "v1", "Namespace"), ("ignored", "x"), "/api/v1/namespaces/x"),
        (POD, ("ns", "a b/c?"), "/api/v1/namespaces/ns/pods/a%20b%2Fc%3F"),
    ],
)
def test_paths(gvk: GroupVersionKind, arguments: tuple[str | None, ...], path: str) -> None:
    namespace, *others = arguments
    assert BUILTIN[gvk].path(*others, namespace=namespace) == path


def test_a_path_that_would_name_something_else_is_refused() -> None:
    mapping = BUILTIN[POD]
    with pytest.raises(ValueError, match="a namespace is needed"):
        mapping.path("x")
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="not a name"):
            mapping.path(name, namespace="ns")
    with pytest.raises(ValueError, match="named object"):
        mapping.path(None, "status", namespace="ns")


def test_the_resource_of_a_mapping_is_the_name_of_its_crd() -> None:
    assert BUILTIN[DEPLOYMENT].resource == "deployments.apps"
    assert BUILTIN[POD].resource == "pods"


@pytest.mark.parametrize(
    ("api_version", "kind", "plural", "namespaced"),
    [
        ("v1", "Endpoints", "endpoints", True),
        ("v1", "Node", "nodes", False),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True),
        ("networking.k8s.io/v1", "Ingress", "ingresses", True),
        ("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True),
        ("events.k8s.io/v1", "Event", "events", True),
        ("storage.k8s.io/v1", "StorageClass", "storageclasses", False),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", False),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False),
    ],
)
def test_built_in_kinds(api_version: str, kind: str, plural: str, namespaced: bool) -> None:
    gvk = GroupVersionKind.parse(api_version, kind)
    assert BUILTIN[gvk] == RESTMapping(gvk, plural, namespaced)
    assert mapping_of(gvk) == BUILTIN[gvk]


def test_an_unknown_kind_has_no_mapping_without_discovery() -> None:
    assert mapping_of(GroupVersionKind("example.com", "v1", "Unknown")) is None
