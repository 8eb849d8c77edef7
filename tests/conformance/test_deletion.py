"""Deletion: finalizers, grace, preconditions, owners, namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import define
from .subjects import DEFINITIONS, GROUP, configmap, definition, deployment, pod, widget
from .wire import JSON_PATCH, Api

FINALIZER = "example.com/hold"


def owned(name: str, *owners: Any, block: bool = False) -> dict[str, Any]:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    return configmap(name, ownerReferences=references)


async def test_delete_answers_a_status(api: Api) -> None:
    made = await api.create(api.configmaps, configmap("a"))
    answer = await api.call("DELETE", f"{api.configmaps}/a")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": made["metadata"]["uid"],
    }
    assert (await api.fails("DELETE", f"{api.configmaps}/a"))[0] == 404


async def test_finalizers_hold_an_object(api: Api) -> None:
    await api.create(api.configmaps, configmap("a", finalizers=[FINALIZER]))
    path = f"{api.configmaps}/a"
    held = await api.call("DELETE", path)
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await api.call("DELETE", path) == held
    status, answer, _ = await api.send("POST", api.configmaps, configmap("a"))
    assert (status, answer["message"][:24]) == (409, "object is being deleted:")
    code, _, message = await api.fails(
        "PATCH",
        path,
        [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/more"}],
        JSON_PATCH,
    )
    assert code == 422
    assert "no new finalizers can be added if the object is being deleted" in message
    last = await api.merge(path, {"metadata": {"finalizers": None}})
    assert last["metadata"]["deletionTimestamp"]
    assert (await api.send("GET", path))[0] == 404


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_preconditions(api: Api, field: str) -> None:
    made = await api.create(api.configmaps, configmap("a"))
    path = f"{api.configmaps}/a"
    wrong = {"preconditions": {field: "1"}}
    assert (await api.fails("DELETE", path, wrong))[:2] == (409, "Conflict")
    right = {"preconditions": {field: made["metadata"][field]}}
    await api.call("DELETE", path, right)


async def test_grace_period_of_bound_pods(api: Api) -> None:
    pods = api.path("v1", "pods")
    bound = pod("a")
    bound["spec"]["nodeName"] = "n"
    await api.create(pods, bound)
    marked = await api.call("DELETE", f"{pods}/a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = await api.call("DELETE", f"{pods}/a", {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.call("DELETE", f"{pods}/a?gracePeriodSeconds=0")
    assert (await api.send("GET", f"{pods}/a"))[0] == 404
    await api.create(pods, pod("b"))
    await api.call("DELETE", f"{pods}/b")
    assert (await api.send("GET", f"{pods}/b"))[0] == 404


async def test_collections_are_deleted_by_selector(api: Api) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {}), ("c", {"x": "1"})):
        await api.create(api.configmaps, configmap(name, labels=labels))
    answer = await api.call("DELETE", f"{api.configmaps}?labelSelector=x")
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "c"]
    left = await api.get(f"{api.configmaps}")
    assert "b" in {item["metadata"]["name"] for item in left["items"]}


async def test_dependents_go_with_their_last_owner(api: Api) -> None:
    one = await api.create(api.configmaps, configmap("one"))
    two = await api.create(api.configmaps, configmap("two"))
    await api.create(api.configmaps, owned("both", one, two))
    await api.create(api.configmaps, owned("only", one))
    await api.call("DELETE", f"{api.configmaps}/one")
    await api.gone(f"{api.configmaps}/only")
    both = await api.until(
        f"{api.configmaps}/both", lambda found: len(found["metadata"]["ownerReferences"]) == 1
    )
    assert both["metadata"]["ownerReferences"][0]["name"] == "two"


async def test_a_whole_tree_goes(api: Api) -> None:
    parent = await api.create(api.configmaps, configmap("n0"))
    for index in range(1, 6):
        parent = await api.create(api.configmaps, owned(f"n{index}", parent))
    await api.call("DELETE", f"{api.configmaps}/n0")
    await api.gone(f"{api.configmaps}/n5")


async def test_dangling_owners_are_noticed(api: Api) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "00000000-0000-4000-8000-000000000000"}}
    await api.create(api.configmaps, owned("child", ghost))
    await api.gone(f"{api.configmaps}/child")


async def test_owners_of_other_namespaces_count_as_absent(api: Api) -> None:
    other = "/api/v1/namespaces/kube-public/configmaps"
    owner = await api.create(other, configmap("owner"))
    await api.create(api.configmaps, owned("child", owner))
    await api.gone(f"{api.configmaps}/child")
    await api.call("DELETE", f"{other}/owner")


async def test_foreground_waits_for_blocking_dependents(api: Api) -> None:
    owner = await api.create(api.configmaps, configmap("owner"))
    child = owned("child", owner, block=True)
    child["metadata"]["finalizers"] = [FINALIZER]
    await api.create(api.configmaps, child)
    waiting = await api.call(
        "DELETE", f"{api.configmaps}/owner", {"propagationPolicy": "Foreground"}
    )
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    path = f"{api.configmaps}/child"
    await api.until(path, lambda found: found["metadata"].get("deletionTimestamp"))
    assert (await api.send("GET", f"{api.configmaps}/owner"))[0] == 200
    await api.merge(path, {"metadata": {"finalizers": None}})
    await api.gone(f"{api.configmaps}/owner")


async def test_orphans_lose_the_reference(api: Api) -> None:
    owner = await api.create(api.configmaps, configmap("owner"))
    await api.create(api.configmaps, owned("child", owner))
    await api.call("DELETE", f"{api.configmaps}/owner", {"propagationPolicy": "Orphan"})
    await api.gone(f"{api.configmaps}/owner")
    child = await api.get(f"{api.configmaps}/child")
    assert "ownerReferences" not in child["metadata"]


async def test_bad_propagation_is_refused(api: Api) -> None:
    await api.create(api.configmaps, configmap("a"))
    code, _, _ = await api.fails("DELETE", f"{api.configmaps}/a", {"propagationPolicy": "No"})
    assert code == 422


async def test_namespaces_take_their_contents_along(api: Api, widgets: str) -> None:
    made = await api.create("/api/v1/namespaces", {"metadata": {"name": (name := api.named("n1"))}})
    assert (made["spec"], made["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    inside = f"/api/v1/namespaces/{name}/configmaps"
    await api.until(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda found: bool(found))
    await api.create(inside, configmap("held", finalizers=[FINALIZER]))
    await api.create(inside, configmap("free"))
    await api.create(f"/apis/apps/v1/namespaces/{name}/deployments", deployment("d"))
    await api.create(f"/apis/{GROUP}/v1/namespaces/{name}/widgets", widget("w"))
    leaving = await api.call("DELETE", f"/api/v1/namespaces/{name}")
    assert leaving["status"]["phase"] == "Terminating"
    status, answer, _ = await api.send("POST", inside, configmap("new"))
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert answer["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    await api.gone(f"{inside}/free")
    assert (await api.send("GET", f"/api/v1/namespaces/{name}"))[0] == 200
    await api.merge(f"{inside}/held", {"metadata": {"finalizers": None}})
    await api.gone(f"/api/v1/namespaces/{name}")


async def test_finalize_removes_finalizers_of_the_spec(api: Api) -> None:
    path = f"/api/v1/namespaces/{(name := api.named('n2'))}"
    body = {"metadata": {"name": name}, "spec": {"finalizers": ["example.com/mine"]}}
    await api.create("/api/v1/namespaces", body)
    await api.call("DELETE", path)
    await api.until(path, lambda found: found["spec"] == {"finalizers": ["example.com/mine"]})
    await api.call("PUT", f"{path}/finalize", {"metadata": {"name": name}, "spec": {}})
    await api.gone(path)


async def test_default_namespaces_stay(api: Api) -> None:
    code, _, message = await api.fails("DELETE", "/api/v1/namespaces/default")
    assert (code, message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


async def test_definitions_take_their_objects_along(api: Api) -> None:
    widgets = await define(api, definition(api.group))
    await api.create(widgets, widget("w", group=api.group, finalizers=[FINALIZER]))
    path = f"{DEFINITIONS}/widgets.{api.group}"
    leaving = await api.call("DELETE", path)
    assert leaving["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    await api.until(f"{widgets}/w", lambda found: found["metadata"].get("deletionTimestamp"))
    await api.merge(f"{widgets}/w", {"metadata": {"finalizers": None}})
    await api.gone(path)
    await api.gone(widgets)
    await define(api, definition(api.group))
    await api.create(widgets, widget("w", group=api.group))
