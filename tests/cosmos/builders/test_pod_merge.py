"""Containers and volumes of users, beside ours and merged into ours."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.strategic import PatchSchema
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.envtest.schema.registry import BuiltinSchema, SchemaRegistry
from internal.cosmos.fullnode.pod_merge import POD_SPEC, ListOrMap, with_theirs
from tests.support.counted_lines import lines

from .samples import node_set
from .test_pods import container, names, pod, spec


@pytest.mark.criterion("COSMOS-A2-26")
def test_further_ones_come_after_ours() -> None:
    made = spec(
        podTemplate__containers=[{"name": "z", "image": "z:v1"}, {"name": "a", "image": "a:v1"}],
        podTemplate__initContainers=[{"name": "late", "image": "late:v1"}],
        podTemplate__volumes=[{"name": "scratch", "emptyDir": {}}],
    )
    assert names(made) == ["node", "healthcheck", "z", "a"]
    assert names(made, "initContainers")[-2:] == ["config-merge", "late"]
    assert made["volumes"][-1] == {"name": "scratch", "emptyDir": {}}


@pytest.mark.criterion("COSMOS-A2-26")
def test_one_of_our_name_is_merged_into_ours() -> None:
    theirs = {
        "name": "node",
        "env": [{"name": "GOGC", "value": "50"}, {"name": "CHAIN_ID", "value": "theirs"}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "ports": [{"containerPort": 1317, "hostPort": 80}],
        "livenessProbe": {"httpGet": {"path": "/", "port": "rpc"}},
    }
    usual, made = (
        container(spec(), "node"),
        container(spec(podTemplate__containers=[theirs]), "node"),
    )
    assert made["image"] == usual["image"]
    assert made["livenessProbe"] == theirs["livenessProbe"]
    variables = {each["name"]: each["value"] for each in made["env"]}
    assert variables["GOGC"] == "50"
    assert variables["CHAIN_ID"] == "theirs"
    assert [each["name"] for each in made["env"]] == [
        *(each["name"] for each in usual["env"]),
        "GOGC",
    ]
    assert made["volumeMounts"] == [*usual["volumeMounts"], *theirs["volumeMounts"]]
    assert made["ports"][0] == {**usual["ports"][0], "hostPort": 80}
    assert made["ports"][1:] == usual["ports"][1:]


def test_a_volume_of_our_name_has_their_source_in_place_of_ours() -> None:
    theirs = [
        {"name": "vol-tmp", "hostPath": {"path": "/fast"}},
        {"name": "vol-system-tmp", "emptyDir": {"sizeLimit": "1Gi"}},
    ]
    made = {each["name"]: each for each in spec(podTemplate__volumes=theirs)["volumes"]}
    assert made["vol-tmp"] == theirs[0]
    assert made["vol-system-tmp"] == theirs[1]
    assert len(made) == 5


def test_what_is_not_wanted_can_be_taken_away() -> None:
    made = spec(podTemplate__containers=[{"name": "healthcheck", "$patch": "delete"}])
    assert names(made) == ["node"]
    port = {"name": "healthcheck", "ports": [{"containerPort": 1251, "$patch": "delete"}]}
    port["ports"].append({"containerPort": 1300, "name": "health"})  # type: ignore[attr-defined]
    moved = container(spec(podTemplate__containers=[port]), "healthcheck")
    assert moved["ports"] == [{"containerPort": 1300, "name": "health"}]


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("containers", [{"image": "nameless:v1"}]),
        ("initContainers", [{"name": "clean-init", "env": [{"value": "nameless"}]}]),
        ("volumes", [{"emptyDir": {}}]),
    ],
)
def test_what_cannot_be_merged_names_the_field(field: str, given: list[dict[str, Any]]) -> None:
    with pytest.raises(UnrecoverableError, match=rf"spec\.podTemplate\.{field}"):
        spec(**{f"podTemplate__{field}": given})


def test_a_pod_without_its_node_is_refused() -> None:
    gone = node_set(podTemplate__containers=[{"name": "node", "$patch": "delete"}])
    with pytest.raises(UnrecoverableError, match="node"):
        pod(gone)


def test_nothing_given_is_changed() -> None:
    ours: dict[str, Any] = {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}
    theirs = {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}
    with_theirs(ours, theirs, "spec")
    assert ours == {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}
    assert theirs == {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}


def test_lists_are_merged_by_the_keys_of_the_api() -> None:
    schema = SchemaRegistry().for_builtin(GroupVersionKind("", "v1", "Pod"))
    assert isinstance(schema, BuiltinSchema)
    assert schema.patch is not None
    _compare(POD_SPEC, schema.patch.field("spec"), "spec")


def _compare(ours: ListOrMap, api: PatchSchema | None, place: str) -> None:
    assert api is not None, place
    assert (ours.merge_key, ours.strategies) == (api.merge_key, api.strategies), place
    inner = api.item() if ours.merge_key else api
    assert inner is not None
    for name, each in ours.fields.items():
        _compare(each, inner.field(name), f"{place}.{name}")


@pytest.mark.criterion("S-F3")
@pytest.mark.parametrize("inner", [False, True])
def test_ten_times_the_items_are_ten_times_the_work(inner: bool) -> None:
    """Each was looked for among all: 10,000 containers, or variables of one, stopped the loop for 8 s."""

    def work(count: int) -> int:
        named = [{"name": f"x{number}"} for number in range(count)]
        given = [{"name": "node", "env": named}] if inner else named
        ours = {"containers": [{"name": "node", "env": [{"name": "HOME"}]}]}
        return lines(lambda: with_theirs(ours, {"containers": given}, "spec"))

    assert work(1_000) < 15 * work(100)


@pytest.mark.criterion("S-F3")
def test_the_fields_of_a_volume_are_looked_at_once() -> None:
    """10,000 of one took 0.7 s: what is kept was looked for in a list, in C."""
    volume = {"name": "v"} | {f"x{number}": "y" for number in range(2_000)}
    compared = 0

    class Compared(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    given = {**volume, "$retainKeys": [Compared(key) for key in volume]}
    assert with_theirs({}, {"volumes": [given]}, "spec")["volumes"] == [volume]
    assert compared < 10_000
