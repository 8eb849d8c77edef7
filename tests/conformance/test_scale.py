"""The scale subresource: read, replaced, patched, applied."""

from __future__ import annotations

import pytest

from .manifests import GROUP, deployment, widget
from .wire import APPLY, JSON_PATCH, Api


def scale(name: str, replicas: int) -> dict[str, object]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name},
        "spec": {"replicas": replicas},
    }


@pytest.mark.custom
async def test_every_verb_of_a_custom_scale(api: Api, widgets: str) -> None:
    path = f"{widgets}/w/scale"
    made = await api.create(widgets, widget("w"))
    found = await api.get(path)
    assert (found["kind"], found["apiVersion"]) == ("Scale", "autoscaling/v1")
    metadata = found["metadata"]
    assert metadata["uid"] == made["metadata"]["uid"]
    assert metadata["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert (found["spec"], found["status"]) == ({"replicas": 1}, {"replicas": 0})
    assert (await api.call("PUT", path, scale("w", 2)))["spec"] == {"replicas": 2}
    assert (await api.merge(path, {"spec": {"replicas": 3}}))["spec"] == {"replicas": 3}
    patch = [{"op": "replace", "path": "/spec/replicas", "value": 4}]
    assert (await api.call("PATCH", path, patch, JSON_PATCH))["spec"] == {"replicas": 4}
    stale = {**found, "spec": {"replicas": 5}}
    assert (await api.fails("PUT", path, stale))[:2] == (409, "Conflict")
    code, reason, message = await api.fails("PUT", path, scale("w", -1))
    assert (code, reason) == (422, "Invalid")
    assert "spec.replicas: Invalid value: -1: should be a non-negative integer" in message
    await api.merge(f"{widgets}/w/status", {"status": {"replicas": 7}})
    assert (await api.get(path))["status"] == {"replicas": 7}
    assert (await api.get(f"{widgets}/w"))["metadata"]["generation"] == 4
    assert (await api.fails("GET", f"{widgets}/none/scale"))[:2] == (404, "NotFound")
    assert (await api.fails("PUT", f"{widgets}/none/scale", scale("none", 1)))[0] == 404
    assert (await api.send("DELETE", path))[0] == 405
    assert (await api.send("POST", path, scale("w", 1)))[0] == 405


async def test_scales_of_workloads(api: Api) -> None:
    for plural, kind in (
        ("deployments", "Deployment"),
        ("replicasets", "ReplicaSet"),
        ("statefulsets", "StatefulSet"),
    ):
        path = api.path("apps/v1", plural)
        body = {**deployment("d"), "kind": kind}
        if kind == "StatefulSet":
            body["spec"]["serviceName"] = "s"
        await api.create(path, body)
        found = await api.get(f"{path}/d/scale")
        assert (found["spec"], found["status"]) == (
            {"replicas": 1},
            {"replicas": 0, "selector": "app=d"},
        )
        after = await api.merge(f"{path}/d/scale", {"spec": {"replicas": 0}})
        assert after["spec"] == {}
        stored = await api.get(f"{path}/d")
        assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (0, 2)
        dry = await api.merge(f"{path}/d/scale?dryRun=All", {"spec": {"replicas": 9}})
        assert dry["spec"] == {"replicas": 9}
        assert (await api.get(f"{path}/d/scale"))["spec"] == {}


async def test_scale_owns_the_replicas(api: Api) -> None:
    path = api.path("apps/v1", "deployments")
    body = deployment("d")
    body["spec"]["replicas"] = 1
    await api.apply(f"{path}/d", body, "one")
    await api.merge(f"{path}/d/scale?fieldManager=scaler", {"spec": {"replicas": 2}})
    stored = await api.get(f"{path}/d")
    entry = next(e for e in stored["metadata"]["managedFields"] if e["manager"] == "scaler")
    assert (entry["subresource"], entry["fieldsV1"]) == ("scale", {"f:spec": {"f:replicas": {}}})
    answer = await api.refusal("PATCH", f"{path}/d?fieldManager=one", body, APPLY)
    assert answer["details"]["causes"][0]["field"] == ".spec.replicas"


async def test_scale_by_apply(api: Api) -> None:
    path = api.path("apps/v1", "deployments")
    await api.create(path, deployment("d"))
    code, _, message = await api.fails(
        "PATCH", f"{path}/d/scale?fieldManager=m", scale("d", 3), APPLY
    )
    text = 'Apply failed with 1 conflict: conflict with "tests" using autoscaling/v1'
    assert (code, message) == (409, f"{text}: .spec.replicas")
    after = await api.apply(f"{path}/d/scale", scale("d", 3), force="true")
    assert after["spec"] == {"replicas": 3}
    stored = await api.get(f"{path}/d")
    entry = next(e for e in stored["metadata"]["managedFields"] if e["manager"] == "m")
    assert (entry["operation"], entry["subresource"]) == ("Apply", "scale")
    same = await api.apply(f"{path}/d/scale", scale("d", 3))
    assert same["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    code, _, _ = await api.fails(
        "PATCH", f"{path}/d/scale?fieldManager=m", {**scale("d", 1), "kind": "Skale"}, APPLY
    )
    assert code in {400, 500}


@pytest.mark.custom
@pytest.mark.since("apply to scale")
async def test_an_apply_to_the_scale_of_a_custom_kind(api: Api, widgets: str) -> None:
    """It checks for conflicts and then fails: the server converts Scale to the custom group."""
    await api.create(widgets, widget("w", {"size": 1, "replicas": 1}))
    path = f"{widgets}/w/scale?fieldManager=m"
    code, _, message = await api.fails("PATCH", path, scale("w", 3), APPLY)
    assert code == 409
    assert message.endswith('conflict with "tests" using autoscaling/v1: .spec.replicas')
    code, _, message = await api.fails("PATCH", f"{path}&force=true", scale("w", 3), APPLY)
    assert code == 500
    assert "request to convert CR to an invalid group/version: autoscaling/v1" in message


@pytest.mark.custom
async def test_a_kind_without_scale(api: Api, shaped: str) -> None:
    assert (await api.send("GET", f"{shaped}/s/scale"))[0] == 404
    assert (await api.send("GET", f"{shaped}/s/status"))[0] == 404
    names = {r["name"] for r in (await api.get(f"/apis/{GROUP}/v1"))["resources"]}
    assert "shapes/status" not in names
