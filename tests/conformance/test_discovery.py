"""What a server says of itself: groups, resources, OpenAPI, version, health."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from .manifests import GROUP
from .wire import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
BUILTIN = {
    "apps/v1": "daemonsets deployments replicasets statefulsets controllerrevisions",
    "batch/v1": "jobs",
    "rbac.authorization.k8s.io/v1": "roles rolebindings clusterroles clusterrolebindings",
    "networking.k8s.io/v1": "ingresses networkpolicies ingressclasses",
    "autoscaling/v1": "horizontalpodautoscalers",
    "coordination.k8s.io/v1": "leases",
    "storage.k8s.io/v1": "storageclasses volumeattachments csidrivers csinodes",
    "scheduling.k8s.io/v1": "priorityclasses",
    "admissionregistration.k8s.io/v1": "validatingwebhookconfigurations mutatingwebhookconfigurations",
    "apiextensions.k8s.io/v1": "customresourcedefinitions",
    "authorization.k8s.io/v1": "subjectaccessreviews selfsubjectaccessreviews",
    "authentication.k8s.io/v1": "tokenreviews",
}


async def test_groups(api: Api) -> None:
    versions = await api.get("/api")
    assert (versions["kind"], versions["versions"]) == ("APIVersions", ["v1"])
    groups = {group["name"]: group for group in (await api.get("/apis"))["groups"]}
    for group_version, names in BUILTIN.items():
        group, _, version = group_version.partition("/")
        entry = {"groupVersion": group_version, "version": version}
        assert entry in groups[group]["versions"]
        assert (await api.get(f"/apis/{group}"))["name"] == group
        found = {r["name"] for r in (await api.get(f"/apis/{group_version}"))["resources"]}
        assert set(names.split()) <= found, group_version


async def test_resources_in_detail(api: Api) -> None:
    """Kind, scope, short names, categories and verbs are those of the real one."""
    core = {r["name"]: r for r in (await api.get("/api/v1"))["resources"]}
    for name, kind, namespaced, short in (
        ("pods", "Pod", True, ["po"]),
        ("services", "Service", True, ["svc"]),
        ("configmaps", "ConfigMap", True, ["cm"]),
        ("namespaces", "Namespace", False, ["ns"]),
        ("nodes", "Node", False, ["no"]),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True, ["pvc"]),
        ("serviceaccounts", "ServiceAccount", True, ["sa"]),
        ("events", "Event", True, ["ev"]),
        ("secrets", "Secret", True, None),
    ):
        found = core[name]
        assert (found["kind"], found["namespaced"], found.get("shortNames")) == (
            kind,
            namespaced,
            short,
        )
    assert core["pods"]["categories"] == ["all"]
    assert sorted(core["pods"]["verbs"]) == [
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    ]  # fmt: skip
    assert sorted(core["namespaces"]["verbs"]) == [
        "create", "delete", "get", "list", "patch", "update", "watch",
    ]  # fmt: skip
    assert core["pods/eviction"]["verbs"] == ["create"]
    assert (core["pods/eviction"]["group"], core["pods/eviction"]["kind"]) == ("policy", "Eviction")
    assert core["pods/binding"]["kind"] == "Binding"
    assert core["serviceaccounts/token"]["kind"] == "TokenRequest"
    assert core["namespaces/finalize"]["verbs"] == ["update"]
    apps = {r["name"]: r for r in (await api.get("/apis/apps/v1"))["resources"]}
    assert apps["deployments"]["shortNames"] == ["deploy"]
    assert apps["deployments/scale"]["kind"] == "Scale"
    assert sorted(apps["deployments/status"]["verbs"]) == ["get", "patch", "update"]


@pytest.mark.since("aggregated discovery")
async def test_aggregated_discovery(api: Api, widgets: str) -> None:
    _, groups, headers = await api.send("GET", "/apis", Accept=AGGREGATED)
    assert headers["Content-Type"].replace(" ", "") == AGGREGATED.replace(
        "application/json;", "application/json;"
    )
    assert (groups["kind"], groups["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    found = {item["metadata"]["name"]: item for item in groups["items"]}
    assert {"apps", "batch", GROUP} <= set(found)
    (version,) = found[GROUP]["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    resources = {item["resource"]: item for item in version["resources"]}
    assert resources["widgets"]["scope"] == "Namespaced"
    assert resources["widgets"]["responseKind"] == {
        "group": GROUP,
        "version": "v1",
        "kind": "Widget",
    }
    assert {s["subresource"] for s in resources["widgets"]["subresources"]} == {"status", "scale"}
    _, core, _ = await api.send("GET", "/api", Accept=AGGREGATED)
    (legacy,) = core["items"]
    assert legacy["versions"][0]["version"] == "v1"
    etag = headers["ETag"]
    status, _, _ = await api.send("GET", "/apis", Accept=AGGREGATED, If_None_Match=etag)
    assert status == 304


async def test_openapi_v3(api: Api, shaped: str) -> None:
    _, answer, headers = await api.send("GET", "/openapi/v3")
    if api.has("index of OpenAPI v3"):
        assert headers["Content-Type"] == "text/plain; charset=utf-8"
    index = orjson.loads(_raw(answer))
    async with asyncio.timeout(60):  # a real server publishes new definitions within seconds
        while f"apis/{GROUP}/v1" not in index["paths"]:
            index = orjson.loads(_raw((await api.send("GET", "/openapi/v3"))[1]))
    for path in ("api/v1", "apis/apps/v1", f"apis/{GROUP}/v1"):
        assert index["paths"][path]["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
    document = await api.get(f"/openapi/v3/apis/{GROUP}/v1")
    assert document["openapi"] == "3.0.0"
    shapes = [
        schema
        for schema in document["components"]["schemas"].values()
        if {"group": GROUP, "kind": "Shape", "version": "v1"}
        in schema.get("x-kubernetes-group-version-kind", ())
    ]
    (schema,) = shapes
    spec = schema["properties"]["spec"]["properties"]
    assert spec["ports"]["x-kubernetes-list-type"] == "map"
    assert schema["properties"]["metadata"]
    path = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/shapes/{{name}}"
    assert {"get", "put", "patch", "delete"} <= set(document["paths"][path])


async def test_openapi_v2(api: Api, shaped: str) -> None:
    """A real server publishes a new definition there within seconds."""
    path = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/shapes"
    api.headers["Accept"] = "application/json"
    found = await api.until("/openapi/v2", lambda found: path.encode() in _raw(found))
    document: dict[str, Any] = orjson.loads(_raw(found))
    assert document["swagger"] == "2.0"
    definitions = document["definitions"]
    deployment = definitions["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [
        {"group": "apps", "kind": "Deployment", "version": "v1"}
    ]
    containers = definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert any(
        {"group": GROUP, "kind": "Shape", "version": "v1"}
        in item.get("x-kubernetes-group-version-kind", ())
        for item in definitions.values()
    )


def _raw(found: object) -> bytes:
    """The real server calls it text."""
    return found if isinstance(found, bytes) else orjson.dumps(found)


async def test_health_and_paths(api: Api) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/readyz/ping"):
        status, body, _ = await api.send("GET", path)
        assert (status, body) == (200, b"ok"), path
    paths = (await api.get("/"))["paths"]
    assert {
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/healthz",
        "/version",
        "/openapi/v2",
    } <= set(paths)
    version = await api.get("/version")
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")
    status, body, _ = await api.send("GET", "/nothing")
    assert status == 404
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert (await api.send(method, "/apis/apps/v1", {}))[0] in {403, 404, 405}
