"""Objects: create, read, update; what the server adds, checks and refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .manifests import GROUP, configmap, deployment, widget
from .wire import MERGE, Api


async def test_create_fills_in_system_fields(api: Api) -> None:
    made = await api.create(api.configmaps, configmap("a"))
    metadata = made["metadata"]
    assert metadata["namespace"] == api.namespace
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    assert "selfLink" not in metadata
    assert metadata["managedFields"][0]["manager"] == "tests"
    assert await api.get(f"{api.configmaps}/a") == made


async def test_one_revision_counts_all_writes(api: Api) -> None:
    versions = []
    for index in range(5):
        made = await api.create(api.configmaps, configmap(f"a{index}"))
        versions.append(int(made["metadata"]["resourceVersion"]))
    assert versions == sorted(set(versions))


async def test_second_create_conflicts(api: Api) -> None:
    await api.create(api.configmaps, configmap("a"))
    found = await api.fails("POST", api.configmaps, configmap("a"))
    assert found == (409, "AlreadyExists", 'configmaps "a" already exists')


async def test_generate_name_makes_a_free_name(api: Api) -> None:
    body = {"metadata": {"generateName": "gen-"}}
    names = {(await api.create(api.configmaps, body))["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


async def test_unknown_objects_and_paths_are_404(api: Api) -> None:
    code, reason, message = await api.fails("GET", f"{api.configmaps}/none")
    assert (code, reason, message) == (404, "NotFound", 'configmaps "none" not found')
    code, _, message = await api.fails("GET", "/apis/apps/v1/nothings")
    assert (code, message) == (404, "the server could not find the requested resource")
    status, body, _ = await api.send("GET", "/apis/no.such.group/v1/things")
    assert (status, body) == (404, b"404 page not found\n")


async def test_update_needs_the_current_version(api: Api) -> None:
    made = await api.create(api.configmaps, configmap("a"))
    path = f"{api.configmaps}/a"
    made["data"] = {"a": "2"}
    changed = await api.call("PUT", path, made)
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    code, reason, message = await api.fails("PUT", path, made)
    assert (code, reason) == (409, "Conflict")
    assert message.endswith(
        "the object has been modified; please apply your changes to the latest version and try again"
    )


async def test_update_that_changes_nothing_is_no_write(api: Api) -> None:
    made = await api.create(api.configmaps, configmap("a"))
    assert await api.call("PUT", f"{api.configmaps}/a", made) == made


async def test_unconditional_update_by_kind(api: Api, widgets: str) -> None:
    await api.create(api.configmaps, configmap("a"))
    await api.call("PUT", f"{api.configmaps}/a", configmap("a", {"b": "2"}))
    await api.create(widgets, widget("w"))
    code, reason, message = await api.fails("PUT", f"{widgets}/w", widget("w"))
    assert (code, reason) == (422, "Invalid")
    assert "metadata.resourceVersion: Invalid value: 0" in message
    assert "must be specified for an update" in message


async def test_put_creates_leases_but_not_configmaps(api: Api) -> None:
    leases = api.path("coordination.k8s.io/v1", "leases")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    status, _, _ = await api.send("PUT", f"{leases}/l", lease)
    assert status == 201
    code, _, _ = await api.fails("PUT", f"{api.configmaps}/none", configmap("none"))
    assert code == 404


async def test_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    path = api.path("apps/v1", "deployments")
    made = await api.create(path, deployment("d"))
    assert made["metadata"]["generation"] == 1
    labelled = await api.merge(f"{path}/d", {"metadata": {"labels": {"x": "y"}}})
    assert labelled["metadata"]["generation"] == 1
    scaled = await api.merge(f"{path}/d", {"spec": {"replicas": 3}})
    assert scaled["metadata"]["generation"] == 2
    status = await api.merge(f"{path}/d/status", {"status": {"replicas": 3}})
    assert status["metadata"]["generation"] == 2


@pytest.mark.custom
async def test_status_and_spec_are_written_apart(api: Api, widgets: str) -> None:
    made = await api.create(widgets, {**widget("w"), "status": {"phase": "no"}})
    assert "status" not in made
    patch = {"status": {"phase": "yes"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}
    after = await api.merge(f"{widgets}/w/status", patch)
    assert after["status"] == {"phase": "yes"}
    assert after["spec"]["size"] == 1
    assert "labels" not in after["metadata"]
    after = await api.merge(f"{widgets}/w", {"status": {"phase": "no"}, "spec": {"size": 2}})
    assert (after["status"], after["spec"]["size"]) == ({"phase": "yes"}, 2)


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "Upper"}, "metadata.name"),
        ({"name": "a" * 254}, "metadata.name"),
        ({"name": "a", "labels": {"a b": "c"}}, "metadata.labels"),
        ({"name": "a", "labels": {"a": "x" * 64}}, "metadata.labels"),
        ({"name": "a", "annotations": {"a/b/c": ""}}, "metadata.annotations"),
        ({"name": "a", "annotations": {"a": "x" * 262144}}, "metadata.annotations"),
        ({"name": "a", "finalizers": ["bare"]}, "metadata.finalizers[0]"),
        ({"name": "a", "ownerReferences": [{"name": "x"}]}, "metadata.ownerReferences.kind"),
        ({}, "metadata.name"),
    ],
)
async def test_bad_metadata_is_refused(api: Api, metadata: dict[str, object], field: str) -> None:
    status, answer, _ = await api.send("POST", api.configmaps, {"metadata": metadata})
    assert (status, answer["reason"]) == (422, "Invalid")
    assert field in {cause["field"] for cause in answer["details"]["causes"]}


async def test_names_of_services_and_namespaces_are_labels(api: Api) -> None:
    service = {"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 80}]}}
    code, _, message = await api.fails("POST", api.path("v1", "services"), service)
    assert code == 422
    if api.has("dots in labels"):
        assert message == (
            'Service "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots'
        )
    service["metadata"] = {"name": "a_b"}
    code, _, message = await api.fails("POST", api.path("v1", "services"), service)
    label = "a lowercase RFC 1123" if api.has("names of services") else "a DNS-1035"
    assert (code, f"{label} label must consist of" in message) == (422, True)
    if api.has("names of services"):
        service["metadata"] = {"name": "1a"}
        await api.create(api.path("v1", "services"), service)
    code, _, message = await api.fails("POST", "/api/v1/namespaces", {"metadata": {"name": "a.b"}})
    assert code == 422
    if api.has("dots in labels"):
        assert message.endswith('"a.b": must not contain dots')
    code, _, message = await api.fails("POST", "/api/v1/namespaces", {"metadata": {"name": "a_b"}})
    assert (code, "a lowercase RFC 1123 label must consist of" in message) == (422, True)


async def test_identity_cannot_change(api: Api) -> None:
    made = await api.create(api.configmaps, configmap("a"))
    path = f"{api.configmaps}/a"
    assert (await api.fails("PATCH", path, {"metadata": {"name": "b"}}, MERGE))[0] == 400
    assert (await api.fails("PATCH", path, {"metadata": {"uid": "b"}}, MERGE))[0] == 422
    other = {**configmap("a"), "metadata": {"name": "a", "uid": "other"}}
    assert (await api.fails("PUT", path, other))[0] == 409
    moved = await api.merge(path, {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}})
    assert moved["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


async def test_namespace_must_exist_and_agree(api: Api) -> None:
    code, _, message = await api.fails(
        "POST", "/api/v1/namespaces/absent/configmaps", configmap("a")
    )
    assert (code, message) == (404, 'namespaces "absent" not found')
    code, _, message = await api.fails(
        "POST", api.configmaps, configmap("a", namespace="elsewhere")
    )
    assert code == 400
    assert message.startswith("the namespace of the provided object does not match")


async def test_bodies_that_cannot_be_read(api: Api) -> None:
    for body in (b"", b"{", b"[]", b"{nope", b'"x"'):
        assert (await api.fails("POST", api.configmaps, body))[:2] == (400, "BadRequest")
    code, reason, _ = await api.fails("POST", api.configmaps, b"x", "text/plain")
    assert (code, reason) == (415, "UnsupportedMediaType")
    wrong = configmap("a", {"a": 1})  # type: ignore[dict-item]
    assert (await api.fails("POST", api.configmaps, wrong))[0] == 400
    labels = {"metadata": {"name": "a", "labels": ["x"]}}
    assert (await api.fails("POST", api.configmaps, labels))[0] == 400


async def test_yaml_bodies_are_read(api: Api) -> None:
    body = b"metadata: {name: a, annotations: {when: 2020-01-01}}\ndata: {a: '1'}\n"
    status, made, _ = await api.send("POST", api.configmaps, body, "application/yaml")
    assert (status, made["metadata"]["annotations"]) == (201, {"when": "2020-01-01"})


async def test_methods_a_path_does_not_have(api: Api) -> None:
    for method, path in (
        ("PUT", api.configmaps),
        ("POST", f"{api.configmaps}/a"),
        ("POST", "/api/v1/configmaps"),
    ):
        code, reason, _ = await api.fails(method, path, configmap("a"))
        assert (code, reason) == (405, "MethodNotAllowed")


async def test_too_large_is_413(api: Api) -> None:
    code, reason, _ = await api.fails("POST", api.configmaps, configmap("a", {"a": "x" * 3200000}))
    assert (code, reason) == (413, "RequestEntityTooLarge")
    assert (await api.send("GET", f"{api.configmaps}/a"))[0] == 404


async def test_too_large_without_a_length_is_413(api: Api) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 100_000

    url, headers = api.url + api.configmaps, {"Content-Type": "application/json"}
    async with api.session.post(url, data=parts(), headers={**api.headers, **headers}) as answer:
        assert answer.status == 413


async def test_immutable_parts(api: Api) -> None:
    await api.create(api.configmaps, {**configmap("a"), "immutable": True})
    code, _, message = await api.fails("PATCH", f"{api.configmaps}/a", {"data": {"a": "2"}}, MERGE)
    assert (code, "field is immutable when `immutable` is set" in message) == (422, True)
    path = api.path("apps/v1", "deployments")
    await api.create(path, deployment("d"))
    patch = {
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}},
        }
    }
    code, _, message = await api.fails("PATCH", f"{path}/d", patch, MERGE)
    assert (code, "spec.selector: Invalid value" in message) == (422, True)


async def test_invalid_deployments_name_every_cause(api: Api) -> None:
    path = api.path("apps/v1", "deployments")
    broken = deployment("d")
    broken["spec"]["template"]["spec"]["containers"] = [{"imagePullPolicy": "Often"}]
    broken["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    status, answer, _ = await api.send("POST", path, broken)
    assert status == 422
    assert {cause["field"] for cause in answer["details"]["causes"]} == {
        "spec.template.metadata.labels",
        "spec.template.spec.containers[0].name",
        "spec.template.spec.containers[0].image",
        "spec.template.spec.containers[0].imagePullPolicy",
    }


async def test_plain_discovery(api: Api, widgets: str) -> None:
    groups = {group["name"] for group in (await api.get("/apis"))["groups"]}
    assert {"apps", "batch", GROUP, "rbac.authorization.k8s.io"} <= groups
    resources = (await api.get(f"/apis/{GROUP}/v1"))["resources"]
    found = {r["name"]: r for r in resources}
    assert {"widgets", "widgets/scale", "widgets/status"} <= set(found)
    assert found["widgets"]["shortNames"] == ["wd"]
    core = {r["name"] for r in (await api.get("/api/v1"))["resources"]}
    assert {"pods", "pods/eviction", "namespaces/finalize", "serviceaccounts/token"} <= core
