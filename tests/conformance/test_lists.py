"""Lists: selectors, pages, versions, forms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from ctrlruntime.envtest.server import ServerOptions

from .manifests import pod, secret, shape, widget
from .servers import TOKENS
from .wire import Api

PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def options(clock: Clock) -> ServerOptions:
    return ServerOptions(clock=clock, tokens=TOKENS, authorization="RBAC")


async def names(api: Api, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await api.get(path))["items"]]


@pytest.fixture
async def fruit(api: Api) -> str:
    for name, labels in {
        "apple": {"color": "red", "sweet": ""},
        "banana": {"color": "yellow"},
        "cherry": {"color": "red"},
        "date": {},
    }.items():
        await api.create(api.secrets, secret(name, labels=labels))
    return api.secrets


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("color=red", ["apple", "cherry"]),
        ("color==red,sweet", ["apple"]),
        ("color!=red", ["banana", "date"]),
        ("color in (red,yellow)", ["apple", "banana", "cherry"]),
        ("color notin (red)", ["banana", "date"]),
        ("!color", ["date"]),
        ("color,!sweet", ["banana", "cherry"]),
        ("sweet=", ["apple"]),
    ],
)
async def test_label_selectors(api: Api, fruit: str, selector: str, expected: list[str]) -> None:
    assert await names(api, f"{fruit}?labelSelector={quote(selector)}") == expected


@pytest.mark.parametrize("selector", ["a in b", "a in (b", "a,,b", "!", "a=b=c", "-a=b", "a=b c"])
async def test_bad_label_selectors_are_refused(api: Api, selector: str) -> None:
    path = f"{api.secrets}?labelSelector={quote(selector)}"
    assert (await api.fails("GET", path))[:2] == (400, "BadRequest")


async def test_field_selectors(api: Api) -> None:
    pods = api.path("v1", "pods")
    await api.create(pods, pod("a"))
    bound = pod("b")
    bound["spec"]["nodeName"] = "n1"
    await api.create(pods, bound)
    assert await names(api, f"{pods}?fieldSelector=spec.nodeName=n1") == ["b"]
    assert await names(api, f"{pods}?fieldSelector=spec.nodeName=,status.phase=Pending") == ["a"]


async def test_unknown_field_selectors_are_refused(api: Api) -> None:
    code, _, message = await api.fails("GET", f"{api.configmaps}?fieldSelector=data.a=b")
    assert code == 400
    assert message == (
        '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )
    code, _, message = await api.fails("GET", f"{api.path('v1', 'pods')}?fieldSelector=spec.x=b")
    assert (code, message) == (400, "field label not supported: spec.x")


async def test_pages_show_one_consistent_state(api: Api, fruit: str) -> None:
    first = await api.get(f"{fruit}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["apple", "banana"]
    assert first["metadata"]["remainingItemCount"] == 2
    await api.call("DELETE", f"{fruit}/cherry")
    await api.create(fruit, secret("cloudberry"))
    second = await api.get(f"{fruit}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["cherry", "date"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


@pytest.mark.embedded("moves its clock")
async def test_old_continue_tokens_expire(api: Api, fruit: str, clock: Clock) -> None:
    first = await api.get(f"{fruit}?limit=1")
    await api.create(fruit, secret("cloudberry"))
    clock.now += timedelta(minutes=10)
    token = first["metadata"]["continue"]
    status, answer, _ = await api.send("GET", f"{fruit}?limit=1&continue={token}")
    assert (status, answer["reason"]) == (410, "Expired")
    rest = await names(api, f"{fruit}?continue={answer['metadata']['continue']}")
    assert rest == ["banana", "cherry", "cloudberry", "date"]
    assert (await api.fails("GET", f"{fruit}?limit=1&continue=abc"))[0] == 400


async def test_versions_of_lists(api: Api, fruit: str) -> None:
    now = (await api.get(fruit))["metadata"]["resourceVersion"]
    for query in (
        "?resourceVersion=0",
        f"?resourceVersion={now}",
        f"?resourceVersion={now}&resourceVersionMatch=NotOlderThan",
        f"?resourceVersion={now}&resourceVersionMatch=Exact",
    ):
        assert len((await api.get(fruit + query))["items"]) == 4
    code, reason, message = await api.fails("GET", f"{fruit}?resourceVersion=99999999")
    assert (code, reason) == (504, "Timeout")
    assert message.startswith("Timeout: Too large resource version: 99999999, current: ")
    assert (await api.fails("GET", f"{fruit}?resourceVersionMatch=Exact"))[0] == 422
    assert (await api.fails("GET", f"{fruit}?limit=x"))[0] == 400


async def test_items_of_builtin_kinds_do_not_repeat_their_type(
    api: Api, fruit: str, widgets: str
) -> None:
    listed = await api.get(fruit)
    assert (listed["kind"], listed["apiVersion"]) == ("SecretList", "v1")
    assert "kind" not in listed["items"][0]
    await api.create(widgets, widget("w"))
    assert (await api.get(widgets))["items"][0]["kind"] == "Widget"


async def test_forms_that_are_not_served_are_406(api: Api) -> None:
    status, answer, _ = await api.send("GET", api.secrets, Accept="text/html")
    assert (status, answer["reason"]) == (406, "NotAcceptable")


async def test_pretty(api: Api) -> None:
    url = f"{api.url}{api.secrets}?pretty=true"
    async with api.session.get(url, headers=api.headers) as answer:
        assert b'\n  "kind": "SecretList"' in await answer.read()


async def test_all_namespaces_in_order_of_keys(api: Api) -> None:
    own = [api.named(name) for name in ("t0", "t1", "t1-a")]
    label = api.namespace
    for namespace in (own[1], own[2], own[0]):
        await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = f"/api/v1/namespaces/{namespace}/secrets"
        await api.create(path, secret("z", labels={"t": label}))
        await api.create(path, secret("a", labels={"t": label}))
    listed = (await api.get(f"/api/v1/secrets?labelSelector=t%3D{label}"))["items"]
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed]
    assert keys == [
        (namespace, name) for namespace in sorted(own, key=lambda n: n + "/") for name in ("a", "z")
    ]
    for namespace in own:
        inside = (await api.get(f"/api/v1/namespaces/{namespace}/secrets"))["items"]
        assert {item["metadata"]["namespace"] for item in inside} == {namespace}
        found = [item["metadata"]["name"] for item in inside]
        assert found[:1] + found[-1:] == ["a", "z"]


@pytest.mark.custom
async def test_versions_and_matches(api: Api, shaped: str) -> None:
    made = await api.create(shaped, shape("a"))
    now = made["metadata"]["resourceVersion"]
    for query, code in {
        "resourceVersion=0&resourceVersionMatch=NotOlderThan": 200,
        f"resourceVersion={now}&resourceVersionMatch=Exact&limit=1": 200,
        "resourceVersion=0&resourceVersionMatch=Exact": 422,
        "resourceVersionMatch=NotOlderThan": 422,
        "resourceVersion=1&resourceVersionMatch=Never": 422,
        f"resourceVersion={now}&resourceVersionMatch=Exact&continue=x": 422,
        "continue=x": 400,
        "limit=-1": 200,
        "limit=x": 400,
        "timeoutSeconds=x": 400,
    }.items():
        status, answer, _ = await api.send("GET", f"{shaped}?{query}")
        assert status == code, (query, answer)


@pytest.mark.custom
async def test_pages_of_a_selection(api: Api, shaped: str) -> None:
    for index in range(6):
        await api.create(shaped, shape(f"s{index}", labels={"odd": str(index % 2)}))
    first = await api.get(f"{shaped}?labelSelector=odd%3D1&limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["s1", "s3"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    second = await api.get(f"{shaped}?labelSelector=odd%3D1&limit=2&continue={token}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["s5"]
    assert second["metadata"]["continue"] == ""
    status, answer, _ = await api.send(
        "GET",
        f"{shaped}?limit=2&continue={token}&resourceVersion={first['metadata']['resourceVersion']}",
    )
    assert (status, answer["reason"]) == (400, "BadRequest")
    assert "specifying resource version is not allowed when using continue" in answer["message"]


@pytest.mark.custom
async def test_gets_at_a_version(api: Api, shaped: str) -> None:
    made = await api.create(shaped, shape("a"))
    now = made["metadata"]["resourceVersion"]
    for query in ("", "?resourceVersion=0", f"?resourceVersion={now}"):
        assert await api.get(f"{shaped}/a{query}") == made
    code, reason, _ = await api.fails("GET", f"{shaped}/a?resourceVersion=99999999")
    assert (code, reason) == (504, "Timeout")
    status, _, _ = await api.send("GET", f"{shaped}/a?resourceVersion=x")
    assert status in {400, 500}


async def test_field_selectors_of_each_kind(api: Api) -> None:
    """The labels that a kind has are taken, others refused in one text."""
    labels = {
        ("v1", "pods"): "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName status.phase status.podIP status.nominatedNodeName",
        ("v1", "events"): "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason source type",
        ("v1", "secrets"): "type",
        ("v1", "replicationcontrollers"): "status.replicas",
        ("batch/v1", "jobs"): "status.successful",
    }  # fmt: skip
    for (group_version, plural), names in labels.items():
        path = api.path(group_version, plural)
        for name in (*names.split(), "metadata.name", "metadata.namespace"):
            assert (await api.send("GET", f"{path}?fieldSelector={name}%3D1"))[0] == 200, name
        _, _, message = await api.fails("GET", f"{path}?fieldSelector=spec.nothing%3D1")
        assert "spec.nothing" in message
    nodes = "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse"
    assert (await api.send("GET", nodes))[0] == 200
    namespaces = "/api/v1/namespaces?fieldSelector=status.phase%3DActive"
    listed = await api.get(namespaces)
    assert api.namespace in {item["metadata"]["name"] for item in listed["items"]}
    for plural in ("configmaps", "services", "serviceaccounts"):
        path = f"{api.path('v1', plural)}?fieldSelector=metadata.name%3Dx"
        assert (await api.get(path))["items"] == []


@pytest.mark.custom
async def test_field_selectors_of_custom_kinds(api: Api, shaped: str) -> None:
    for name in ("a", "b"):
        await api.create(shaped, shape(name))
    assert await names(api, f"{shaped}?fieldSelector=metadata.name%3Da") == ["a"]
    assert await names(api, f"{shaped}?fieldSelector=metadata.name!%3Da") == ["b"]
    whole = f"{shaped}?fieldSelector=metadata.namespace%3D{api.namespace}"
    assert await names(api, whole) == ["a", "b"]
    code, reason, message = await api.fails("GET", f"{shaped}?fieldSelector=spec.count%3D1")
    assert (code, reason) == (400, "BadRequest")
    assert message == "field label not supported: spec.count"


@pytest.mark.custom
async def test_metadata_only_answers_of_every_verb(api: Api, shaped: str) -> None:
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    status, made, _ = await api.send("POST", shaped, shape("a", {"count": 5}), Accept=accept)
    assert (status, made["kind"], made["apiVersion"]) == (
        201,
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
    )
    assert "spec" not in made
    _, one, _ = await api.send("GET", f"{shaped}/a", Accept=accept)
    assert one == made
    _, listed, _ = await api.send("GET", shaped, Accept=PARTIAL)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"][0]["metadata"] == made["metadata"]
    status, answer, _ = await api.send(
        "GET", shaped, Accept="application/json;as=PartialObjectMetadata;v=v1beta9;g=meta.k8s.io"
    )
    assert (status, answer["reason"]) == (406, "NotAcceptable")
    _, gone, _ = await api.send("DELETE", f"{shaped}/a", Accept=accept)
    assert gone["status"] == "Success"


@pytest.mark.custom
async def test_tables_of_custom_kinds(api: Api, shaped: str) -> None:
    await api.create(shaped, shape("a"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    _, table, _ = await api.send("GET", shaped, Accept=accept)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    (row,) = table["rows"]
    assert row["cells"][0] == "a"
    assert row["object"]["kind"] == "PartialObjectMetadata"
    _, table, _ = await api.send("GET", f"{shaped}?includeObject=Object", Accept=accept)
    assert table["rows"][0]["object"]["kind"] == "Shape"
    _, table, _ = await api.send("GET", f"{shaped}?includeObject=None", Accept=accept)
    assert "object" not in table["rows"][0] or table["rows"][0]["object"] is None
    _, table, _ = await api.send("GET", f"{shaped}/a", Accept=accept)
    assert len(table["rows"]) == 1
