"""Sequences that a real server (1.36) answered, replayed on the model."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.apply import track_update
from ctrlruntime.envtest.merge.fields import FieldSet
from ctrlruntime.envtest.merge.patches import PatchRefused, json_patch, merge_patch, strategic_merge
from ctrlruntime.envtest.schema.registry import BuiltinSchema, SchemaRegistry
from tests.envtest.merge.widgets import Model

_FIXTURES = Path(__file__).parent / "fixtures"
_APPLIED = json.loads((_FIXTURES / "applied.json").read_bytes())
_VERSION = "oracle.example.com/v1"
REGISTRY = SchemaRegistry()


def _schema() -> dict[str, Any]:
    schema = copy.deepcopy(_APPLIED["schema"])
    # The Widget of 1.36 has this field on top.
    properties = schema["properties"]["spec"]["properties"]
    properties["port"] = {"x-kubernetes-int-or-string": True}
    return dict(schema)


def _owners(obj: dict[str, Any]) -> dict[Any, Any]:
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): (
            entry["fieldsV1"],
            "time" in entry,
        )
        for entry in obj["metadata"].get("managedFields", ())
    }


def _step(model: Model, step: dict[str, Any]) -> tuple[int, str]:
    subresource = "status" if step["status"] else ""
    if step["type"] == "apply":
        return model.apply(
            step["body"], step["manager"], force=step["force"], subresource=subresource
        )
    if step["type"] == "json":
        step = {**step, "body": json_patch(model.live, step["body"])}
    return model.merge(step["body"], step["manager"], subresource)


@pytest.mark.parametrize("name", sorted(_APPLIED["sequences"]))
def test_a_recorded_sequence_gives_the_recorded_answers(name: str) -> None:
    model = Model(REGISTRY, _schema(), _VERSION)
    for step in _APPLIED["sequences"][name]:
        if "deletionTimestamp" in step["title"]:
            continue
        if model.live is None and step["status"]:
            head = {"apiVersion": _VERSION, "kind": "Widget", "metadata": {"name": name}}
            model.apply({**head, "spec": {"size": 1}}, "maker", force=False)
        code, message = _step(model, step)
        assert code == step["code"], (step["title"], message)
        if code == 409:
            assert message == step["answer"]["message"], step["title"]
        if code >= 400 or model.live is None:
            continue
        ours = {who: what for who, what in _owners(model.live).items() if who[0] != "maker"}
        real = _owners(step["answer"])
        if name == "st":
            real = {who: what for who, what in real.items() if who in ours}
        assert ours == real, step["title"]
        if "spec" in step["answer"]:
            assert model.live["spec"] == step["answer"]["spec"], step["title"]


_CREATED = json.loads((_FIXTURES / "created.json").read_bytes())
_LATER = {
    # What the server adds after the owners were noted, or what later releases own otherwise.
    "Job": {"spec.selector", "spec.template.metadata.labels"},
    "Pod": {"spec.preemptionPolicy", "spec.priority", "spec.tolerations"},
    "Service": {"spec.clusterIP", "spec.clusterIPs", "spec.selector"},
    "PersistentVolumeClaim": {"metadata.finalizers", "status"},
    "PersistentVolume": {"metadata.finalizers", "status"},
    "Namespace": {"spec.finalizers", "status"},
    "Node": {"spec.taints"},
    "CustomResourceDefinition": {"status"},
    "Ingress": {"spec.defaultBackend.service.port"},
    "HorizontalPodAutoscaler": {"spec.scaleTargetRef"},
    "RoleBinding": {"roleRef"},
    "ClusterRoleBinding": {"roleRef"},
}
_SERVED = {"v1beta1": "v1", "v2beta2": "v2"}


@pytest.mark.parametrize("created", _CREATED, ids=lambda obj: f"{obj['kind']}-{obj['apiVersion']}")
def test_the_creator_of_a_built_in_object_owns_as_on_the_real_server(
    created: dict[str, Any],
) -> None:
    obj = copy.deepcopy(created)
    kind = GroupVersionKind.of(obj)
    kind = GroupVersionKind(kind.group, _SERVED.get(kind.version, kind.version), kind.kind)
    schema = REGISTRY.for_builtin(kind)
    real = obj["metadata"].pop("managedFields")[0]["fieldsV1"]
    tracked = track_update(
        None,
        obj,
        manager="m",
        schema=schema,
        api_version=obj["apiVersion"],
        now="2026-01-01T00:00:00Z",
    )
    ours = tracked["metadata"]["managedFields"][0]["fieldsV1"]
    excused = tuple(tuple(f"f:{p}" for p in path.split(".")) for path in _LATER.get(kind.kind, ()))

    def left(first: FieldSet, second: FieldSet) -> list[str]:
        return [
            fields.path_string(path)
            for path in fields.paths(fields.difference(first, second))
            if not any(path[: len(each)] == each for each in excused)
        ]

    assert left(ours, real) == []
    assert left(real, ours) == []


def test_every_recorded_object_is_known_and_canonical() -> None:
    for created in _CREATED:
        kind = GroupVersionKind.of(created)
        kind = GroupVersionKind(kind.group, _SERVED.get(kind.version, kind.version), kind.kind)
        schema = REGISTRY.for_builtin(kind)
        obj = copy.deepcopy(created)
        assert schema.unknown_fields(obj) == []
        assert schema.mismatch(obj) is None
        expected = json.loads(json.dumps(obj), object_pairs_hook=_without_nulls)
        schema.normalize(obj)
        assert obj == expected


def _without_nulls(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if value is not None}


_STRATEGIC = json.loads((_FIXTURES / "strategic.json").read_bytes())


def test_strategic_merge_patches_give_the_recorded_answers() -> None:
    schema = REGISTRY.for_builtin(GroupVersionKind("apps", "v1", "Deployment"))
    assert isinstance(schema, BuiltinSchema)
    # The containers as the first answer shows them before the patch.
    first = copy.deepcopy(_STRATEGIC[0]["answer"]["spec"])
    del first[0]["env"]
    live: dict[str, Any] = {
        "metadata": {},
        "spec": {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {"containers": first}},
        },
    }
    seen = 0
    for step in _STRATEGIC:
        if step["code"] >= 400:
            with pytest.raises(PatchRefused) as caught:
                strategic_merge(live, step["body"], schema.patch)
            assert (caught.value.code, str(caught.value)) == (500, step["answer"]["message"])
            continue
        live = strategic_merge(live, step["body"], schema.patch)
        answer = step["answer"]
        if isinstance(answer.get("spec"), list):
            containers = live["spec"]["template"]["spec"]["containers"]
            names = [container["name"] for container in containers]
            assert names == [container["name"] for container in answer["spec"]]
            for ours, real in zip(containers, answer["spec"], strict=True):
                assert ours.get("env") == real.get("env"), step["title"]
                assert ours.get("args") == real.get("args"), step["title"]
        elif "strategy" in answer:
            assert live["spec"]["strategy"] == answer["strategy"]
            assert (live["metadata"].get("finalizers") or None) == answer["finalizers"]
        seen += 1
    assert seen >= 10


def test_merge_patch_follows_the_examples_of_its_rfc() -> None:
    examples: list[tuple[Any, Any, Any]] = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a"], ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ]
    for doc, patch, result in examples:
        assert merge_patch(doc, patch) == result


def test_json_patch_tells_true_from_1_and_changes_no_document() -> None:
    """All other operations and refusals: tests/conformance/test_patches.py, on both servers."""
    doc = {"a": {"b": [1, 2]}}
    assert json_patch(doc, [{"op": "test", "path": "/a/b/0", "value": 1.0}]) == doc
    assert json_patch(doc, [{"op": "add", "path": "/a/b/-", "value": 9}])["a"]["b"] == [1, 2, 9]
    assert doc == {"a": {"b": [1, 2]}}
    with pytest.raises(PatchRefused):
        json_patch(doc, [{"op": "test", "path": "/a/b/0", "value": True}])
    with pytest.raises(PatchRefused, match="unsupported operation") as refused:
        json_patch(doc, [{"op": "frob", "path": "/x"}])
    assert refused.value.code == 400
