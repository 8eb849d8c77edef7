"""Deletion: finalizers, grace, preconditions, owners, namespaces."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ctrlruntime.json import Json

from .conftest import define
from .manifests import (
    DEFINITIONS,
    GROUP,
    configmap,
    definition,
    deployment,
    pod,
    shape,
    widget,
)
from .wire import JSON_PATCH, MERGE, Api

FINALIZER = "example.com/hold"


def owned(name: str, *owners: Json, block: bool = False) -> dict[str, Any]:
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


@pytest.mark.parametrize(
    "body", [{"propagationPolicy": "Orphan"}, {"orphanDependents": True}], ids=["policy", "old"]
)
async def test_orphans_lose_the_reference(api: Api, body: dict[str, object]) -> None:
    owner = await api.create(api.configmaps, configmap("owner"))
    await api.create(api.configmaps, owned("child", owner))
    await api.call("DELETE", f"{api.configmaps}/owner", body)
    await api.gone(f"{api.configmaps}/owner")
    child = await api.get(f"{api.configmaps}/child")
    assert "ownerReferences" not in child["metadata"]


async def test_namespaces_take_their_contents_along(api: Api, widgets: str) -> None:
    """Three at once: a real controller comes back to what is held after some eight seconds."""
    await asyncio.gather(_contents(api), _own_finalizer(api), _definition_with_objects(api))


async def _contents(api: Api) -> None:
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
    await _conditions(api, f"/api/v1/namespaces/{name}")
    assert (await api.send("GET", f"/api/v1/namespaces/{name}"))[0] == 200
    await api.merge(f"{inside}/held", {"metadata": {"finalizers": None}})
    await api.gone(f"/api/v1/namespaces/{name}")


async def _own_finalizer(api: Api) -> None:
    """One of the spec, which the subresource finalize removes."""
    path = f"/api/v1/namespaces/{(name := api.named('n2'))}"
    body = {"metadata": {"name": name}, "spec": {"finalizers": ["example.com/mine"]}}
    await api.create("/api/v1/namespaces", body)
    await api.call("DELETE", path)
    await api.until(path, lambda found: found["spec"] == {"finalizers": ["example.com/mine"]})
    await api.call("PUT", f"{path}/finalize", {"metadata": {"name": name}, "spec": {}})
    await api.gone(path)


async def _conditions(api: Api, path: str) -> None:
    """What keeps a namespace is said in its conditions."""
    found = await api.until(path, lambda found: _remains(found))
    conditions = {c["type"]: c for c in found["status"]["conditions"]}
    assert {type_: c["status"] for type_, c in conditions.items()} == {
        "NamespaceDeletionDiscoveryFailure": "False",
        "NamespaceDeletionGroupVersionParsingFailure": "False",
        "NamespaceDeletionContentFailure": "False",
        "NamespaceContentRemaining": "True",
        "NamespaceFinalizersRemaining": "True",
    }
    assert conditions["NamespaceContentRemaining"]["reason"] == "SomeResourcesRemain"
    assert conditions["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: configmaps. has 1 resource instances"
    )
    assert conditions["NamespaceFinalizersRemaining"]["reason"] == "SomeFinalizersRemain"
    assert conditions["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    )
    for type_, reason, message in (
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ("NamespaceDeletionContentFailure", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    ):  # fmt: skip
        assert (conditions[type_]["reason"], conditions[type_]["message"]) == (reason, message)


def _remains(namespace: Json) -> bool:
    """Whether its conditions are written, by a look that no definition of others went during."""
    conditions = {c["type"]: c["status"] for c in namespace["status"].get("conditions") or ()}
    discovered = conditions.get("NamespaceDeletionDiscoveryFailure") == "False"
    return discovered and "NamespaceContentRemaining" in conditions


async def _definition_with_objects(api: Api) -> None:
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


async def test_default_namespaces_stay(api: Api) -> None:
    code, _, message = await api.fails("DELETE", "/api/v1/namespaces/default")
    assert (code, message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


@pytest.mark.custom
async def test_deletion_of_custom_objects(api: Api, shaped: str) -> None:
    made = await api.create(shaped, shape("a"))
    answer = await api.call("DELETE", f"{shaped}/a")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {
        "name": "a",
        "group": GROUP,
        "kind": "shapes",
        "uid": made["metadata"]["uid"],
    }
    held = await api.create(shaped, shape("b", finalizers=[FINALIZER]))
    marked = await api.call("DELETE", f"{shaped}/b")
    assert marked["metadata"]["generation"] == held["metadata"]["generation"] + 1
    assert await api.call("DELETE", f"{shaped}/b") == marked
    status, answer, _ = await api.send("POST", shaped, shape("b"))
    assert (status, answer["reason"]) == (409, "AlreadyExists")
    assert answer["message"] == (f'object is being deleted: shapes.{GROUP} "b" already exists')
    answer = await api.merge(f"{shaped}/b", {"metadata": {"finalizers": []}})
    assert "finalizers" not in answer["metadata"]
    await api.gone(f"{shaped}/b")


@pytest.mark.custom
async def test_preconditions_in_words(api: Api, shaped: str) -> None:
    made = await api.create(shaped, shape("a"))
    path, metadata = f"{shaped}/a", made["metadata"]
    code, reason, message = await api.fails("DELETE", path, {"preconditions": {"uid": "x"}})
    assert (code, reason) == (409, "Conflict")
    assert (
        f"the UID in the precondition (x) does not match the UID in record ({metadata['uid']}). "
        "The object might have been deleted and then recreated" in message
    )
    wrong = {"preconditions": {"uid": metadata["uid"], "resourceVersion": "1"}}
    code, _, message = await api.fails("DELETE", path, wrong)
    assert code == 409
    assert (
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record "
        f"({metadata['resourceVersion']}). The object might have been modified" in message
    )
    assert (await api.call("DELETE", f"{path}?dryRun=All"))["status"] == "Success"
    assert await api.get(path) == made


@pytest.mark.custom
async def test_options_of_a_deletion_are_checked(api: Api, shaped: str) -> None:
    await api.create(shaped, shape("a"))
    path = f"{shaped}/a"
    for options, text in (
        ({"propagationPolicy": "No"}, 'propagationPolicy: Unsupported value: "No"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "orphanDependents"),
        ({"dryRun": ["No"]}, "dryRun: Unsupported value"),
    ):
        code, _, message = await api.fails("DELETE", path, options)
        assert (code, text in message) == (422, True), message
    for body in (b"{", b'{"kind": "Pod", "apiVersion": "v1"}', b'{"gracePeriodSeconds": "x"}'):
        code, _, _ = await api.fails("DELETE", path, body)
        assert code == 400 or (code == 500 and not api.has("unreadable options")), body
    assert (await api.fails("DELETE", f"{shaped}/none"))[:2] == (404, "NotFound")
    orphaned = await api.call("DELETE", f"{path}?propagationPolicy=Orphan")
    assert orphaned["metadata"]["finalizers"] == ["orphan"]
    await api.send("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)


@pytest.mark.custom
async def test_collections_of_custom_objects(api: Api, shaped: str) -> None:
    for name in ("a", "b", "c"):
        await api.create(shaped, shape(name, labels={"x": name}))
    dry = await api.call("DELETE", f"{shaped}?dryRun=All")
    assert len(dry["items"]) == 3
    answer = await api.call("DELETE", f"{shaped}?labelSelector=x+in+(a,b)")
    assert answer["kind"] == "ShapeList"
    assert sorted(item["metadata"]["name"] for item in answer["items"]) == ["a", "b"]
    await api.call("DELETE", f"{shaped}?fieldSelector=metadata.name%3Dc")
    assert (await api.get(shaped))["items"] == []


async def test_background_and_foreground_by_option_or_query(api: Api) -> None:
    """Foreground marks the owner; Background takes it at once; both take the dependents."""
    for policy in ("Foreground", "Background"):
        owner = await api.create(api.configmaps, configmap("owner"))
        await api.create(api.configmaps, owned("child", owner, block=True))
        answer = await api.call("DELETE", f"{api.configmaps}/owner?propagationPolicy={policy}")
        if policy == "Foreground":
            assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
            assert answer["metadata"]["deletionTimestamp"]
        else:
            assert answer["status"] == "Success"
        await api.gone(f"{api.configmaps}/child")
        await api.gone(f"{api.configmaps}/owner")


async def test_owners_that_do_not_block_are_not_waited_for(api: Api) -> None:
    owner = await api.create(api.configmaps, configmap("owner"))
    child = owned("child", owner)
    child["metadata"]["finalizers"] = [FINALIZER]
    await api.create(api.configmaps, child)
    await api.call("DELETE", f"{api.configmaps}/owner?propagationPolicy=Foreground")
    await api.gone(f"{api.configmaps}/owner")
    path = f"{api.configmaps}/child"
    await api.until(path, lambda found: found["metadata"].get("deletionTimestamp"))
    await api.merge(path, {"metadata": {"finalizers": None}})
    await api.gone(path)


async def test_an_owner_made_anew_is_another(api: Api) -> None:
    """Dependents name their owner by UID."""
    first = await api.create(api.configmaps, configmap("owner"))
    await api.call("DELETE", f"{api.configmaps}/owner")
    await api.create(api.configmaps, configmap("owner"))
    await api.create(api.configmaps, owned("child", first))
    await api.gone(f"{api.configmaps}/child")
    assert await api.get(f"{api.configmaps}/owner")


async def test_owner_references_are_checked(api: Api) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}
    for change, field in (
        ({"uid": ""}, "metadata.ownerReferences.uid"),
        ({"name": ""}, "metadata.ownerReferences.name"),
        ({"kind": ""}, "metadata.ownerReferences.kind"),
        ({"apiVersion": ""}, "metadata.ownerReferences.apiVersion"),
        ({"apiVersion": "v1", "kind": "Event"}, "metadata.ownerReferences"),
    ):
        body = configmap("c", ownerReferences=[{**reference, **change}])
        causes = await api.causes("POST", api.configmaps, body)
        assert field in {cause[0] for cause in causes}, (field, causes)
    two = [{**reference, "controller": True}, {**reference, "uid": "v", "controller": True}]
    causes = await api.causes("POST", api.configmaps, configmap("c", ownerReferences=two))
    assert [("Only one reference can have Controller set to true" in c[2]) for c in causes] == [
        True
    ]


async def test_eviction_deletes_with_the_grace_period(api: Api) -> None:
    pods = api.path("v1", "pods")
    bound = pod("p")
    bound["spec"]["nodeName"] = "n"
    await api.create(pods, bound)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p"},
        "deleteOptions": {"gracePeriodSeconds": 7},
    }
    answer = await api.create(f"{pods}/p/eviction?dryRun=All", eviction)
    assert answer["status"] == "Success"
    assert "deletionTimestamp" not in (await api.get(f"{pods}/p"))["metadata"]
    await api.create(f"{pods}/p/eviction", eviction)
    marked = await api.get(f"{pods}/p")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    await api.call("DELETE", f"{pods}/p?gracePeriodSeconds=0")
    assert (await api.fails("POST", f"{pods}/none/eviction", {"metadata": {"name": "none"}}))[
        0
    ] == 404
