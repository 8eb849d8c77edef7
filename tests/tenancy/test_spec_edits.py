"""What was added by hand to a Tenant's spec, found and taken out (H-A7)."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from internal.tenancy.registry.spec_edits import added_paths, removal_patch

Spec = dict[str, Any]


def entry(id_: str, **fields: object) -> Spec:
    return {"id": id_, "spec": {"apiVersion": "v1", "kind": "ConfigMap"}, **fields}


def spec(*entries: Spec, **fields: object) -> Spec:
    return {"uid": "a", "variables": {"x": "1"}, "configMaps": [*entries], **fields}


@pytest.mark.criterion("H-A7")
@pytest.mark.parametrize(
    ("live", "wanted", "paths"),
    [
        (spec(entry("a")), spec(entry("a")), []),
        (spec(entry("a"), entry("b")), spec(entry("a")), [("configMaps", 1)]),
        (
            spec(entry("c"), entry("a"), entry("b")),
            spec(entry("a")),
            [("configMaps", 2), ("configMaps", 0)],
        ),
        (spec(services=[entry("s")]), spec(), [("services",)]),
        (spec(entry("a", dependIds=["b"])), spec(entry("a")), [("configMaps", 0, "dependIds")]),
        (spec(entry("a", waitForReady=True)), spec(entry("a")), []),
        (spec(entry("a"), jobs=[]), spec(entry("a")), []),
        (
            spec() | {"variables": {"x": "1", "y/z": "2"}},
            spec(),
            [("variables", "y/z")],
        ),
        (spec(serviceAccountName="root"), spec(), [("serviceAccountName",)]),
    ],
)
def test_h_a7_additions_are_found(live: Spec, wanted: Spec, paths: list[Any]) -> None:
    assert added_paths(live, wanted) == paths


def test_h_a7_the_patch_names_the_version_and_escapes_keys() -> None:
    patch = removal_patch("7", [("variables", "y/z"), ("configMaps", 1)])
    assert patch == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "remove", "path": "/spec/variables/y~1z"},
        {"op": "remove", "path": "/spec/configMaps/1"},
    ]


ids = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)


@pytest.mark.criterion("H-A7")
@given(wanted=ids, added=ids, order=st.randoms())
def test_h_a7_taking_out_what_was_added_leaves_what_is_wanted(
    wanted: list[str], added: list[str], order: Random
) -> None:
    names = [*wanted, *(name for name in added if name not in wanted)]
    order.shuffle(names)
    live = spec(*(entry(name) for name in names))
    kept = copy.deepcopy(live)
    for path in added_paths(live, spec(*(entry(name) for name in wanted))):
        place: Any = kept
        for part in path[:-1]:
            place = place[part]
        del place[path[-1]]
    assert sorted(item["id"] for item in kept["configMaps"]) == sorted(wanted)
