"""What the schemas accept is carried out or refused with the field's name; what they refuse is refused with it too."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob
from ctrlruntime.api import Resource, find_condition
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.errors import Invalid
from ctrlruntime.schedule import BadSchedule, parse
from internal.cosmos.fullnode.checks import check_claims, check_increase, check_pods, check_strategy
from internal.cosmos.invalid import InvalidSpec
from tests.cosmos.fullnode.harness import NAME, SERVICE, NodeSetHarness, Place, laid_over

T = TypeVar("T")

CRD = BUILTIN[GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")]
CHECKS = ("pattern", "minimum", "maximum", "maxLength", "minLength", "minItems", "required", "enum")
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

on_server = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
    pytest.mark.criterion("H-C2"),
]


def marked(test: T) -> T:
    for mark in on_server:
        mark(test)
    return test


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("spec.strategy.maxUnavailable", {"strategy": {"maxUnavailable": "lots"}}),
    ("spec.strategy.maxUnavailable", {"strategy": {"maxUnavailable": -1}}),
    ("spec.strategy.minReadySeconds", {"strategy": {"minReadySeconds": -1}}),
    (
        "spec.volumeClaimTemplate.resources.requests.storage",
        {"volumeClaimTemplate": {"resources": {"requests": {"storage": "abc"}}}},
    ),
    (
        "spec.podTemplate.resources.requests.cpu",
        {"podTemplate": {"resources": {"requests": {"cpu": "abc"}}}},
    ),
    (
        "spec.podTemplate.resources.limits.memory",
        {"podTemplate": {"resources": {"limits": {"memory": "-1Gi"}}}},
    ),
    ("spec.podTemplate.containers[0].name", {"podTemplate": {"containers": [{"image": "a"}]}}),
    ("spec.podTemplate.image", {"podTemplate": {"image": "two words"}}),
    ("spec.chain.homeDir", {"chain": {"homeDir": "../../etc"}}),
    (
        "spec.chain.config.rpcListenAddress",
        {"chain": {"config": {"rpcListenAddress": "tcp://0.0.0.0:99999"}}},
    ),
    ("spec.replicas", {"replicas": 2_000_000_000}),
    ("spec.replicas", {"replicas": 201}),
    ("spec.replicas", {"replicas": -1}),
    ("spec.volumeClaimTemplate.storageClassName", {"volumeClaimTemplate": {"storageClassName": "A b"}}),
    ("spec.volumeClaimTemplate.accessModes[0]", {"volumeClaimTemplate": {"accessModes": ["Often"]}}),
    (
        "spec.selfHeal.pvcAutoScale.increaseQuantity",
        {"selfHeal": {"pvcAutoScale": {"usedSpacePercentage": 80, "increaseQuantity": "10K"}}},
    ),
]  # fmt: skip


@pytest.mark.criterion("COSMOS-A10-45")
@marked
@pytest.mark.parametrize(("path", "spec"), REFUSED, ids=[f"{n}" for n in range(len(REFUSED))])
async def test_h_c2_the_schema_refuses_by_path(
    place: Place, path: str, spec: dict[str, Any]
) -> None:
    with pytest.raises(Invalid) as caught:
        await place.client.create(place.node_set(**spec))
    assert path in str(caught.value)


@marked
async def test_h_c2_the_schema_wants_the_size_of_a_disk(place: Place) -> None:
    manifest = place.node_set()
    empties: list[dict[str, Any]] = [{}, {"requests": {}}]
    for empty in empties:
        manifest["spec"]["volumeClaimTemplate"]["resources"] = empty
        with pytest.raises(Invalid, match=r"spec\.volumeClaimTemplate\.resources\.requests"):
            await place.client.create(manifest)


@marked
async def test_h_c2_a_volume_may_be_an_image(place: Place) -> None:
    volume = {"name": "data", "image": {"reference": "example.com/data:1"}}
    made = await place.client.create(
        place.node_set(podTemplate={"volumes": [volume]}), dry_run=True
    )
    assert made["spec"]["podTemplate"]["volumes"] == [volume]


STORED: list[tuple[str, dict[str, Any]]] = [
    ("spec.strategy.maxUnavailable", {"strategy": {"maxUnavailable": "lots"}}),
    (
        "spec.volumeClaimTemplate.resources.requests.storage",
        {"volumeClaimTemplate": {"resources": {"requests": {"storage": "abc"}}}},
    ),
    (
        "spec.volumeClaimTemplate.resources.requests.storage",
        {"volumeClaimTemplate": {"resources": {"requests": None}}},
    ),
    (
        "spec.podTemplate.resources.requests.cpu",
        {"podTemplate": {"resources": {"requests": {"cpu": "abc"}}}},
    ),
    ("spec.chain.app.overrides", {"chain": {"app": {"overrides": "[["}}}),
    (
        "spec.chain.config",
        {"chain": {"config": {"p2pListenAddress": "tcp://0.0.0.0:9090"}}},
    ),
    (
        "additional Pods: TypeError",
        {"additionalVersionedPods": [{"name": "beside", "spec": {"containers": 5}}]},
    ),
]


@marked
async def test_h_c2_what_is_stored_is_an_error_by_path_and_other_steps_run(
    harness: NodeSetHarness, place: Place
) -> None:
    """As objects are that were stored before the schema refused them. No Pod is touched."""
    async with loosened(harness, CosmosFullNode, STORED[-1][1]):
        await place.apply(place.node_set())
        await place.settled()
        before = await place.uids()
        for number, (path, spec) in enumerate(STORED):
            note = {"rpcTemplate": {"metadata": {"annotations": {"number": str(number)}}}}
            good = place.node_set(service=note)["spec"]
            await replace(place, laid_over(good, spec))
            found = await place.phase("Error")
            assert path in found.status.status, spec
            ready = find_condition(found.status.conditions, "Ready")
            assert ready is not None
            expected = "ReconcileError" if "TypeError" in path else "InvalidSpec"
            assert (ready.status, ready.reason) == ("False", expected)
            assert path in ready.message
            service = await place.object(SERVICE, "hub-rpc")
            assert service["metadata"]["annotations"]["number"] == str(number)
            names = {name: uid for name, uid in (await place.uids()).items() if name in before}
            assert names == before, spec
            await replace(place, good)
            await place.settled()


@marked
async def test_h_c2_a_spec_that_cannot_be_read_touches_nothing(
    harness: NodeSetHarness, place: Place
) -> None:
    async with loosened(harness, CosmosFullNode, {}):
        await place.apply(place.node_set())
        await place.settled()
        before = await place.uids()
        await merge(place, replicas=1_000_000)
        found = await place.until_object(
            CosmosFullNode.mapping(),
            NAME,
            lambda item: item["status"]["observedGeneration"] == item["metadata"]["generation"],
        )
        assert found["status"]["phase"] == "Error"
        conditions = {each["type"]: each for each in found["status"]["conditions"]}
        assert conditions["Ready"]["status"] == "False"
        assert conditions["Ready"]["reason"] == "InvalidSpec"
        assert "spec.replicas" in conditions["Ready"]["message"]
        assert await place.uids() == before
        await merge(place, replicas=3)
        await place.settled()


@marked
async def test_h_c2_what_the_server_refuses_of_a_pod_is_no_passing_failure(
    harness: NodeSetHarness, place: Place
) -> None:
    """It answers 500 to fields that it does not know: they stay unknown, and are not tried every three seconds."""
    manifest = place.node_set(podTemplate={"affinity": {"nodeAfinity": {}}})
    await place.apply(manifest)
    found = await place.phase("Error")
    assert "spec.affinity.nodeAfinity" in found.status.status
    ready = find_condition(found.status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "InvalidSpec"


SNAPSHOTS: dict[str, Any] = {
    "fullNodeRef": {"name": NAME},
    "schedule": "@daily",
    "volumeSnapshotClassName": "standard",
}
JOBS: dict[str, Any] = {
    "selector": {"a": "b"},
    "podTemplate": {"spec": {"containers": [{"name": "a", "image": "a"}]}},
    "volumeClaimTemplate": {"storageClassName": "standard"},
}
OTHERS: list[tuple[Any, dict[str, Any], dict[str, Any], str, str]] = [
    (ScheduledVolumeSnapshot, SNAPSHOTS, {"schedule": "99 * * * *"}, "BadSchedule", "spec.schedule"),
    (ScheduledVolumeSnapshot, SNAPSHOTS, {"timeZone": "Mars"}, "BadSchedule", "spec.timeZone"),
    (ScheduledVolumeSnapshot, SNAPSHOTS, {"minAvailable": 0}, "InvalidSpec", "spec.minAvailable"),
    (StatefulJob, JOBS, {"interval": "1s"}, "InvalidSpec", "spec.interval"),
    (StatefulJob, JOBS, {"interval": "9999999h"}, "InvalidSpec", "spec.interval"),
    (StatefulJob, JOBS, {"schedule": "@often"}, "InvalidSpec", "spec.schedule"),
    (StatefulJob, JOBS, {"schedule": "@daily", "timeZone": "Mars"}, "InvalidSpec", "spec.timeZone"),
]  # fmt: skip


@marked
@pytest.mark.parametrize(
    ("kind", "good", "bad", "reason", "path"), OTHERS, ids=[str(n) for n in range(len(OTHERS))]
)
async def test_h_c2_schedules_are_refused_by_path(
    harness: NodeSetHarness,
    place: Place,
    kind: type[Resource[Any, Any]],
    good: dict[str, Any],
    bad: dict[str, Any],
    reason: str,
    path: str,
) -> None:
    """Of the snapshots and of the Jobs, in the status."""
    async with loosened(harness, kind, {}):
        await place.client.create(
            {
                "apiVersion": kind.gvk().api_version,
                "kind": kind.__name__,
                "metadata": {"name": "other", "namespace": place.namespace},
                "spec": {**copy.deepcopy(good), **bad},
            }
        )
        found = await place.until_object(
            kind.mapping(), "other", lambda item: bool((item.get("status") or {}).get("conditions"))
        )
        assert found["status"]["observedGeneration"] == 1
        ready = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", reason)
        assert path in ready["message"]
        await place.client.delete(kind, "other", namespace=place.namespace)


@pytest.mark.criterion("H-C2")
@given(
    st.text(max_size=30) | st.text("0123456789*/,-@ aeLW#?", max_size=30),
    st.none() | st.text(max_size=20),
)
def test_h_c2_any_text_is_a_schedule_or_a_bad_one(text: str, zone: str | None) -> None:
    with_reason(text, zone)


def with_reason(text: str, zone: str | None) -> None:
    try:
        parse(text, zone)
    except BadSchedule as error:
        assert str(error).startswith(("spec.schedule ", "spec.timeZone "))  # noqa: PT017


SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["requests", "limits", "storage", "cpu"]), inner, max_size=2
        )
    ),
    max_leaves=4,
)


@pytest.mark.criterion("H-C2")
@given(
    resources=st.dictionaries(st.sampled_from(["requests", "limits"]), ANYTHING, max_size=2),
    unavailable=st.none() | st.integers() | st.text(max_size=6),
    address=st.text(max_size=10),
)
def test_h_c2_checks_raise_nothing_but_the_field(
    resources: dict[str, Any], unavailable: int | str | None, address: str
) -> None:
    node_set = CosmosFullNode.model_validate(
        {
            "metadata": {"name": "hub", "namespace": "a"},
            "spec": {
                "replicas": 3,
                "chain": {
                    "chainID": "a",
                    "network": "a",
                    "binary": "a",
                    "app": {"minGasPrice": "1a"},
                    "config": {"rpcListenAddress": address},
                },
                "strategy": {"maxUnavailable": unavailable},
                "podTemplate": {"image": "a", "resources": resources},
                "volumeClaimTemplate": {"storageClassName": "a", "resources": resources},
            },
        }
    )
    for check in (check_strategy, check_pods, check_claims, check_increase):
        with names_a_field():
            check(node_set)


@contextmanager
def names_a_field() -> Iterator[None]:
    try:
        yield
    except InvalidSpec as error:
        assert str(error).startswith("spec.")  # noqa: PT017


async def replace(place: Place, spec: dict[str, Any]) -> None:
    """Put the spec in place of what is there, by hand."""
    found = await place.client.get(CosmosFullNode.mapping(), NAME, namespace=place.namespace)
    await place.client.update({**found, "spec": spec})


async def merge(place: Place, **spec: object) -> None:
    """Merge into a spec that cannot be read."""
    mapping = CosmosFullNode.mapping()
    await place.client.patch(mapping, NAME, {"spec": spec}, namespace=place.namespace)


@asynccontextmanager
async def loosened(
    harness: NodeSetHarness, kind: type[Resource[Any, Any]], more: dict[str, Any]
) -> AsyncIterator[None]:
    """The kind's schema without its checks, as an older release had it."""
    mapping = kind.mapping()
    name = f"{mapping.plural}.{mapping.gvk.group}"
    before = await harness.client.get(CRD, name)
    crd = copy.deepcopy(before)
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]["properties"]
        _loosen(schema["spec"])
        if more:
            pods = schema["spec"]["properties"]["additionalVersionedPods"]["items"]
            pods["properties"]["spec"] = OPEN
    await harness.client.update(crd)
    try:
        yield
    finally:
        now = await harness.client.get(CRD, name)
        await harness.client.update({**now, "spec": before["spec"]})


def _loosen(schema: dict[str, Any], *, is_list_item: bool = False) -> None:
    for key in CHECKS:
        if key != "required" or not is_list_item:
            schema.pop(key, None)
    for child in schema.get("properties", {}).values():
        _loosen(child)
    for place in ("items", "additionalProperties"):
        if isinstance(schema.get(place), dict):
            _loosen(schema[place], is_list_item=place == "items")
