"""Patches of all four kinds, field validation and dry run."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlruntime.json import Json

from .manifests import configmap, deployment, shape, widget
from .wire import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api


def owners(obj: Json) -> dict[tuple[str, str], Any]:
    return {
        (entry["manager"], entry["operation"]): entry["fieldsV1"]
        for entry in obj["metadata"]["managedFields"]
    }


async def test_json_patch(api: Api) -> None:
    await api.create(api.configmaps, configmap("a"))
    path = f"{api.configmaps}/a"
    patch = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
    ]
    assert (await api.call("PATCH", path, patch, JSON_PATCH))["data"] == {"a": "2"}
    code, reason, message = await api.fails("PATCH", path, patch, JSON_PATCH)
    assert (code, reason) == (422, "Invalid")
    assert message == "the server rejected our request due to an error in our request"


async def test_merge_patch_with_a_version_is_conditional(api: Api) -> None:
    await api.create(api.configmaps, configmap("a"))
    patch = {"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}}
    assert (await api.fails("PATCH", f"{api.configmaps}/a", patch, MERGE))[:2] == (409, "Conflict")


async def test_strategic_merge_patch_is_for_builtin_kinds(api: Api, widgets: str) -> None:
    path = api.path("apps/v1", "deployments")
    await api.create(path, deployment("d"))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "s", "image": "b"}]}}}}
    after = await api.call("PATCH", f"{path}/d", patch, STRATEGIC)
    assert {c["name"] for c in after["spec"]["template"]["spec"]["containers"]} == {"c", "s"}
    await api.create(widgets, widget("w"))
    code, reason, message = await api.fails("PATCH", f"{widgets}/w", {}, STRATEGIC)
    assert (code, reason) == (415, "UnsupportedMediaType")
    assert "application/json-patch+json, application/merge-patch+json" in message


async def test_apply_creates_then_owns(api: Api) -> None:
    path = f"{api.configmaps}/a"
    status, made, _ = await api.send("PATCH", f"{path}?fieldManager=m", configmap("a"), APPLY)
    assert status == 201
    assert owners(made) == {("m", "Apply"): {"f:data": {"f:a": {}}}}
    after = await api.apply(path, configmap("a", {"b": "2"}))
    assert after["data"] == {"b": "2"}


async def test_apply_over_a_foreign_field_conflicts_unless_forced(api: Api) -> None:
    path = f"{api.configmaps}/a"
    await api.apply(path, configmap("a"), "one")
    status, answer, _ = await api.send(
        "PATCH", f"{path}?fieldManager=two", configmap("a", {"a": "2"}), APPLY
    )
    assert (status, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert answer["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    ]
    forced = await api.apply(path, configmap("a", {"a": "2"}), "two", force="true")
    assert set(owners(forced)) == {("two", "Apply")}


@pytest.mark.since("times alone are no write")
async def test_apply_again_writes_nothing(api: Api) -> None:
    path = f"{api.path('apps/v1', 'deployments')}/d"
    wanted = deployment("d")
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1000m"}}
    first = await api.apply(path, wanted)
    container = first["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"cpu": "1"}
    await api.next_second()
    assert await api.apply(path, wanted) == first


async def test_apply_with_version_1_creates_or_conflicts(api: Api) -> None:
    path = f"{api.configmaps}/a?fieldManager=m&force=true"
    wanted = configmap("a", resourceVersion="1")
    status, _, _ = await api.send("PATCH", path, wanted, APPLY)
    assert status == 201
    assert (await api.fails("PATCH", path, wanted, APPLY))[:2] == (409, "Conflict")


async def test_apply_as_yaml_and_without_manager(api: Api) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n"
    path = f"{api.configmaps}/a"
    assert (await api.send("PATCH", f"{path}?fieldManager=m", body, APPLY))[0] == 201
    code, _, message = await api.fails("PATCH", path, body, APPLY)
    assert code == 422
    assert message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: '
        "is required for apply patch"
    )


async def test_apply_answers_metadata_only_on_request(api: Api) -> None:
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    path = f"{api.configmaps}/a?fieldManager=m"
    status, made, _ = await api.send("PATCH", path, configmap("a"), APPLY, Accept=accept)
    assert (status, made["kind"], "data" in made) == (201, "PartialObjectMetadata", False)


async def test_a_foreign_change_takes_the_field_away(api: Api) -> None:
    path = f"{api.configmaps}/a"
    await api.apply(path, configmap("a", {"a": "1", "b": "1"}))
    after = await api.merge(path, {"data": {"a": "2"}})
    assert owners(after)["m", "Apply"] == {"f:data": {"f:b": {}}}


async def test_field_validation(api: Api, widgets: str) -> None:
    body = {**configmap("a"), "bogus": 1}
    for path, obj, field in (
        (api.configmaps, body, "bogus"),
        (widgets, widget("a", {"size": 1, "bogus": 1}), "spec.bogus"),
    ):
        code, reason, message = await api.fails("POST", f"{path}?fieldValidation=Strict", obj)
        assert (code, reason) == (400, "BadRequest")
        assert message.endswith(f'strict decoding error: unknown field "{field}"')
        status, made, headers = await api.send("POST", path, obj)
        assert status == 201
        assert headers.getall("Warning") == [f'299 - "unknown field \\"{field}\\""']
        assert "bogus" not in made
        await api.call("DELETE", f"{path}/a")
        _, _, headers = await api.send("POST", f"{path}?fieldValidation=Ignore", obj)
        assert "Warning" not in headers


async def test_repeated_fields_are_noticed(api: Api) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"a":"1","a":"2"}}'
    code, _, message = await api.fails("POST", f"{api.configmaps}?fieldValidation=Strict", body)
    assert (code, 'duplicate field "data.a"' in message) == (400, True)
    _, made, _ = await api.send("POST", api.configmaps, body)
    assert made["data"] == {"a": "2"}


async def test_dry_run_stores_nothing(api: Api) -> None:
    made = await api.create(f"{api.configmaps}?dryRun=All", configmap("a"))
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert (await api.send("GET", f"{api.configmaps}/a"))[0] == 404
    stored = await api.create(api.configmaps, configmap("a"))
    patched = await api.merge(f"{api.configmaps}/a?dryRun=All", {"data": {"a": "2"}})
    assert patched["data"] == {"a": "2"}
    assert patched["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    await api.call("DELETE", f"{api.configmaps}/a?dryRun=All")
    applied = await api.apply(f"{api.configmaps}/b", configmap("b"), dryRun="All")
    assert applied["data"] == {"a": "1"}
    assert await api.get(f"{api.configmaps}/a") == stored
    assert (await api.send("GET", f"{api.configmaps}/b"))[0] == 404
    assert (await api.fails("POST", f"{api.configmaps}?dryRun=No", configmap("c")))[0] == 422


@pytest.mark.since("dry runs of addresses")
async def test_dry_run_of_services_takes_no_address(api: Api) -> None:
    services = api.path("v1", "services")
    spec: dict[str, Any] = {"type": "NodePort", "ports": [{"port": 80}]}
    body = {"metadata": {"name": "s"}, "spec": spec}
    shown = (await api.create(f"{services}?dryRun=All", body))["spec"]
    assert (shown["clusterIP"].endswith(".0.0"), shown["ports"][0]["nodePort"]) == (True, 32769)
    fixed = {**body, "spec": {**spec, "clusterIP": shown["clusterIP"]}}
    for query, words in (
        ("", "the provided network does not match the current range"),
        ("?dryRun=All", f"the provided IP ({shown['clusterIP']}) is not in the valid range"),
    ):
        code, _, message = await api.fails("POST", f"{services}{query}", fixed)
        assert (code, words in message) == (422, True)
    made = (await api.create(services, body))["spec"]
    again = {"metadata": {"name": "t"}, "spec": {**spec, "clusterIP": made["clusterIP"]}}
    await api.create(f"{services}?dryRun=All", again)
    code, _, message = await api.fails("POST", services, again)
    assert (code, "already allocated" in message) == (422, True)


@pytest.mark.custom
@pytest.mark.kube_apiserver("Debian builds the other with another library for JSON patches")
async def test_operations_of_json_patch(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    spec = {"names": ["a", "b"], "free": {"a": 1, "b/c": {"d~": 2}}, "count": 5}
    await api.create(shaped, shape("s", spec))
    steps: list[tuple[list[dict[str, Any]], Any]] = [
        ([{"op": "add", "path": "/spec/names/-", "value": "c"}], ["a", "b", "c"]),
        ([{"op": "add", "path": "/spec/names/0", "value": "z"}], ["z", "a", "b", "c"]),
        ([{"op": "remove", "path": "/spec/names/1"}], ["z", "b", "c"]),
        ([{"op": "replace", "path": "/spec/names/0", "value": "y"}], ["y", "b", "c"]),
        ([{"op": "move", "from": "/spec/names/0", "path": "/spec/names/1"}], ["b", "y", "c"]),
        ([{"op": "test", "path": "/spec/names/0", "value": "b"}, {"op": "remove", "path": "/spec/names/2"}], ["b", "y"]),
    ]  # fmt: skip
    for patch, names in steps:
        after = await api.call("PATCH", path, patch, JSON_PATCH)
        assert after["spec"]["names"] == names, patch
    escaped = [
        {"op": "replace", "path": "/spec/free/b~1c/d~0", "value": 3},
        {"op": "copy", "from": "/spec/free/b~1c", "path": "/spec/free/e"},
    ]
    after = await api.call("PATCH", path, escaped, JSON_PATCH)
    assert after["spec"]["free"] == {"a": 1, "b/c": {"d~": 3}, "e": {"d~": 3}}
    if not api.has("patch bodies"):
        return
    for patch in (
        [{"op": "remove", "path": "/spec/nothing"}],
        [{"op": "replace", "path": "/nothing/deep", "value": 1}],
        [{"op": "test", "path": "/nothing/deep", "value": None}],
        [{"op": "move", "from": "/spec/nothing", "path": "/spec/count"}],
        [{"op": "add", "path": "", "value": {}}],
        [{"op": "test", "path": "/spec/count", "value": 6}],
        [{"op": "add", "path": "/spec/names/9", "value": "x"}],
        [{"op": "add", "path": "/nothing/deep", "value": "x"}],
    ):
        code, reason, message = await api.fails("PATCH", path, patch, JSON_PATCH)
        assert (code, reason) == (422, "Invalid"), patch
        assert message == "the server rejected our request due to an error in our request"
    if api.has("replacing what is absent"):
        absent = [
            {"op": "replace", "path": "/spec/free/new", "value": 1},
            {"op": "test", "path": "/spec/free/none", "value": None},
        ]
        after = await api.call("PATCH", path, absent, JSON_PATCH)
        assert after["spec"]["free"]["new"] == 1
    for body in (b"{}", b"[1]", b'"x"', b"["):
        code, reason, _ = await api.fails("PATCH", path, body, JSON_PATCH)
        assert (code, reason) == (400, "BadRequest"), body
    same = [{"op": "test", "path": "/spec/count", "value": 5}]
    again = await api.call("PATCH", path, same, JSON_PATCH)
    assert again["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


@pytest.mark.custom
async def test_merge_patch(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    await api.create(shaped, shape("s", {"names": ["a", "b"], "parts": {"a": "1"}, "count": 5}))
    after = await api.merge(path, {"spec": {"names": ["c"], "parts": {"b": "2"}, "count": None}})
    assert after["spec"]["names"] == ["c"]
    assert after["spec"]["parts"] == {"a": "1", "b": "2"}
    assert "count" not in after["spec"]
    for body in (b"[]", b"[1]", b'"x"', b"{", b"1"):
        code, reason, _ = await api.fails("PATCH", path, body, MERGE)
        if api.has("patch bodies"):
            assert (code, reason) == (400, "BadRequest"), body
    code, reason, _ = await api.fails("PATCH", f"{shaped}/none", {}, MERGE)
    assert (code, reason) == (404, "NotFound")
    code, reason, message = await api.fails("PATCH", path, {}, "application/xml")
    assert (code, reason) == (415, "UnsupportedMediaType")
    for query, text in (
        ("force=true", "force: Forbidden: may not be specified for non-apply patch"),
        ("dryRun=x", "dryRun: Unsupported value"),
        (f"fieldManager={'x' * 129}", "fieldManager: Too long"),
    ):
        code, reason, message = await api.fails("PATCH", f"{path}?{query}", {}, MERGE)
        assert (code, reason, text in message) == (422, "Invalid", True), message


async def test_directives_of_strategic_merge(api: Api) -> None:
    path = f"{api.path('apps/v1', 'deployments')}/d"
    body = deployment("d")
    containers = body["spec"]["template"]["spec"]["containers"]
    containers[0]["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    containers.append({"name": "s", "image": "s:1"})
    body["metadata"]["finalizers"] = ["example.com/a", "example.com/b"]
    await api.create(api.path("apps/v1", "deployments"), body)

    async def strategic(patch: object) -> Json:
        return await api.call("PATCH", path, patch, STRATEGIC)

    def template(**spec: object) -> dict[str, Any]:
        return {"spec": {"template": {"spec": spec}}}

    after = await strategic(template(containers=[{"name": "s", "$patch": "delete"}]))
    assert [c["name"] for c in after["spec"]["template"]["spec"]["containers"]] == ["c"]
    env = [{"name": "C", "value": "3"}, {"$patch": "replace"}]
    after = await strategic(template(containers=[{"name": "c", "env": env}]))
    assert after["spec"]["template"]["spec"]["containers"][0]["env"] == [
        {"name": "C", "value": "3"}
    ]
    order = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}],
        "containers": [{"name": "b", "image": "b:1"}],
    }
    after = await strategic(template(**order))
    assert [c["name"] for c in after["spec"]["template"]["spec"]["containers"]] == ["b", "c"]
    after = await strategic(
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    )
    assert after["metadata"]["finalizers"] == ["example.com/b"]
    after = await strategic({"metadata": {"finalizers": ["example.com/c"]}})
    assert sorted(after["metadata"]["finalizers"]) == ["example.com/b", "example.com/c"]
    keys = {"$retainKeys": ["type"], "type": "Recreate"}
    after = await strategic({"spec": {"strategy": keys}})
    assert after["spec"]["strategy"] == {"type": "Recreate"}
    after = await strategic({"spec": {"strategy": {"$patch": "replace", "type": "RollingUpdate"}}})
    assert after["spec"]["strategy"]["rollingUpdate"] == {
        "maxUnavailable": "25%",
        "maxSurge": "25%",
    }
    after = await strategic({"metadata": {"finalizers": None}, "spec": {"paused": True}})
    assert "finalizers" not in after["metadata"]
    broken: list[Any] = [
        template(containers=[{"image": "x"}]),
        {"spec": {"$patch": "explode"}},
        {"spec": []},
    ]
    for wrong in broken:
        code, _, _ = await api.fails("PATCH", path, wrong, STRATEGIC)
        assert code in {400, 422, 500}, wrong


@pytest.mark.custom
async def test_dry_runs_of_every_verb(api: Api, shaped: str) -> None:
    stored = await api.create(shaped, shape("s", {"count": 5}))
    path, dry = f"{shaped}/s", "?dryRun=All"
    made = await api.create(f"{shaped}{dry}", shape("t"))
    assert "resourceVersion" not in made["metadata"]
    assert made["metadata"]["uid"]
    put = await api.call("PUT", path + dry, {**stored, "spec": {"count": 10}})
    assert (put["spec"]["count"], put["metadata"]["generation"]) == (10, 2)
    assert put["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    patched = await api.merge(path + dry, {"spec": {"count": 15}})
    assert patched["spec"]["count"] == 15
    ops = [{"op": "replace", "path": "/spec/count", "value": 20}]
    assert (await api.call("PATCH", path + dry, ops, JSON_PATCH))["spec"]["count"] == 20
    applied = await api.apply(path, shape("s", {"count": 25}), force="true", dryRun="All")
    assert applied["spec"]["count"] == 25
    assert (await api.apply(f"{shaped}/u", shape("u"), dryRun="All"))["metadata"]["name"] == "u"
    code, _, _ = await api.fails("POST", f"{shaped}{dry}", shape("s"))
    assert code == 409
    code, _, _ = await api.fails("POST", f"{shaped}{dry}", shape("v", {"count": 1000}))
    assert code == 422
    await api.call("DELETE", path + dry)
    await api.call("DELETE", path, {"dryRun": ["All"]})
    assert (await api.get(shaped))["items"][0] == stored
    assert len((await api.get(shaped))["items"]) == 1


@pytest.mark.custom
async def test_replacement(api: Api, shaped: str) -> None:
    made = await api.create(shaped, shape("s", {"count": 5, "mode": "off"}))
    path = f"{shaped}/s"
    version = made["metadata"]["resourceVersion"]
    bare = shape("s", {"count": 10}, resourceVersion=version)
    after = await api.call("PUT", path, bare)
    assert after["spec"] == {"count": 10, "mode": "on", "note": "none", "nested": {"name": "n"}}
    assert after["metadata"]["uid"] == made["metadata"]["uid"]
    assert after["metadata"]["generation"] == 2
    assert (await api.fails("PUT", path, bare))[:2] == (409, "Conflict")
    code, _, message = await api.fails("PUT", path, shape("t", resourceVersion=version))
    assert (code, message) == (
        400,
        "the name of the object (t) does not match the name on the URL (s)",
    )
    nameless = shape("s")
    del nameless["metadata"]["name"]
    assert (await api.fails("PUT", path, nameless))[0] == 400
    code, reason, message = await api.fails("PUT", f"{shaped}/none", shape("none"))
    assert (code, reason) == (404, "NotFound")
    other = shape("s", resourceVersion=after["metadata"]["resourceVersion"], uid="other")
    assert (await api.fails("PUT", path, other))[:2] == (409, "Conflict")


@pytest.mark.custom
@pytest.mark.since("times alone are no write")
async def test_what_changes_times_alone_is_no_write(api: Api, shaped: str) -> None:
    """A second later, by the same and by another manager, in every way to write."""
    path = f"{shaped}/s"
    await api.apply(path, shape("s", {"count": 5, "names": ["a"]}))
    made = await api.merge(path, {"spec": {"parts": {"a": "1"}}})
    await api.next_second()
    again = [
        await api.call("PUT", path, made),
        await api.call("PUT", f"{path}?fieldManager=other", made),
        await api.merge(path, {"spec": {"count": 5}}),
        await api.merge(f"{path}?fieldManager=other", {"spec": {"parts": {"a": "1"}}}),
        await api.apply(path, shape("s", {"count": 5, "names": ["a"]})),
    ]
    assert all(found == made for found in again)
    forged = [
        {**entry, "time": "2020-01-01T00:00:00Z"} for entry in made["metadata"]["managedFields"]
    ]
    changed = {**made, "metadata": {**made["metadata"], "managedFields": forged}}
    assert await api.call("PUT", path, changed) == made


async def test_what_changes_times_alone_is_no_write_of_built_in_kinds(api: Api) -> None:
    path = f"{api.path('apps/v1', 'deployments')}/d"
    made = await api.create(api.path("apps/v1", "deployments"), deployment("d"))
    await api.next_second()
    if not api.has("times alone are no write"):
        return
    assert await api.call("PUT", path, made) == made
    assert await api.merge(path, {"spec": {"replicas": 1, "paused": None}}) == made
    status = await api.merge(f"{path}/status", {"status": {"replicas": 0}})
    assert (status["metadata"]["generation"], status["spec"]) == (1, made["spec"])
