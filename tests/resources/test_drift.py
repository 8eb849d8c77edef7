"""Drift is a leaf of the desired object that our managed-fields entry no longer holds."""

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlruntime.resources.drift import missing_leaves

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "namespace": "n", "labels": {"app": "a"}},
    "spec": {
        "replicas": 2,
        "template": {
            "spec": {
                "containers": [
                    {"name": "web", "image": "x", "ports": [{"containerPort": 80}], "args": ["a"]}
                ],
                "volumes": [{"name": "v", "emptyDir": {}}],
            }
        },
    },
}
OWNED: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:app": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:template": {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"web"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:args": {},
                        "f:ports": {
                            'k:{"containerPort":80,"protocol":"TCP"}': {
                                ".": {},
                                "f:containerPort": {},
                            }
                        },
                    }
                },
                "f:volumes": {'k:{"name":"v"}': {".": {}, "f:name": {}, "f:emptyDir": {}}},
            }
        },
    },
}


def without(path: str) -> bytes:
    """OWNED with one field taken out, as the server does: an emptied parent goes with it."""
    owned = orjson.loads(orjson.dumps(OWNED))
    remove(owned, path.split("/"))
    return orjson.dumps(owned)


def remove(node: dict[str, Any], path: list[str]) -> None:
    first, *rest = path
    if rest:
        remove(node[first], rest)
    if not rest or not node[first]:
        del node[first]


def test_an_entry_that_holds_every_leaf_is_no_drift() -> None:
    assert missing_leaves(DEPLOYMENT, orjson.dumps(OWNED)) == []


@pytest.mark.parametrize(
    ("taken", "missing"),
    [
        ("f:spec/f:replicas", ["spec.replicas"]),
        ("f:metadata/f:labels/f:app", ["metadata"]),
        (
            'f:spec/f:template/f:spec/f:containers/k:{"name":"web"}/f:image',
            ["spec.template.spec.containers[0].image"],
        ),
        (
            'f:spec/f:template/f:spec/f:containers/k:{"name":"web"}/f:args',
            ["spec.template.spec.containers[0].args"],
        ),
        (
            (
                'f:spec/f:template/f:spec/f:containers/k:{"name":"web"}/f:ports/'
                'k:{"containerPort":80,"protocol":"TCP"}'
            ),
            ["spec.template.spec.containers[0].ports"],
        ),
        (
            'f:spec/f:template/f:spec/f:volumes/k:{"name":"v"}/f:emptyDir',
            ["spec.template.spec.volumes[0].emptyDir"],
        ),
    ],
)
def test_a_field_taken_from_our_entry_is_named(taken: str, missing: list[str]) -> None:
    assert missing_leaves(DEPLOYMENT, without(taken)) == missing


def test_fields_of_others_in_the_object_do_not_matter() -> None:
    owned = orjson.loads(orjson.dumps(OWNED))
    owned["f:spec"]["f:paused"] = {}
    assert missing_leaves(DEPLOYMENT, orjson.dumps(owned)) == []


def test_wiped_managed_fields_make_every_leaf_missing() -> None:
    assert missing_leaves(DEPLOYMENT, None) == ["metadata", "spec"]


def test_sets_are_matched_by_value_and_atomic_lists_as_a_whole() -> None:
    desired = {"metadata": {"finalizers": ["x", "y"]}, "spec": {"args": [1, 2]}}
    owned: dict[str, Any] = {
        "f:metadata": {"f:finalizers": {'v:"x"': {}}},
        "f:spec": {"f:args": {}},
    }
    assert missing_leaves(desired, orjson.dumps(owned)) == ["metadata.finalizers[1]"]


def test_the_uid_of_an_owner_reference_may_be_recorded_as_a_star() -> None:
    desired = {"metadata": {"ownerReferences": [{"uid": "u-1", "name": "n"}]}}
    owned: dict[str, Any] = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"*"}': {}}}}
    assert missing_leaves(desired, orjson.dumps(owned)) == []


def test_null_values_and_status_are_never_owned() -> None:
    assert missing_leaves({"spec": {"a": None}, "status": {"x": 1}}, b'{"f:spec":{".":{}}}') == []


PLAIN = st.recursive(
    st.integers(0, 3) | st.text("ab", min_size=1, max_size=2),
    lambda inner: st.dictionaries(st.text("xyz", min_size=1, max_size=2), inner, min_size=1),
    max_leaves=8,
)


def fields_of(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {f"f:{name}": fields_of(item) for name, item in value.items()}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text("xyz", min_size=1, max_size=2), PLAIN, min_size=1), st.data())
def test_exactly_the_taken_leaf_is_missing(spec: dict[str, Any], data: st.DataObject) -> None:
    owned: dict[str, Any] = {"f:spec": fields_of(spec)}
    node, path, value = owned["f:spec"], "spec", spec
    while True:
        name = data.draw(st.sampled_from(sorted(value)))
        path = f"{path}.{name}"
        if not isinstance(value[name], dict):
            break
        node, value = node[f"f:{name}"], value[name]
    assert missing_leaves({"spec": spec}, orjson.dumps(owned)) == []
    del node[f"f:{name}"]
    if node:  # an emptied parent goes with its last field, on the server too
        assert missing_leaves({"spec": spec}, orjson.dumps(owned)) == [path]
