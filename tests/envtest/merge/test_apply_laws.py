"""Laws of server-side apply, over random objects and managers."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlruntime.envtest.merge import fields, managed
from ctrlruntime.envtest.merge.apply import ApplyConflict, apply
from ctrlruntime.envtest.merge.patches import merge_patch
from ctrlruntime.envtest.merge.typed import field_set
from ctrlruntime.envtest.schema.registry import SchemaRegistry, TypeSchema
from ctrlruntime.json import Json
from tests.envtest.merge.widgets import Model, applied, patched, spec

pytestmark = pytest.mark.criterion("APPLY-LAWS")

REGISTRY = SchemaRegistry()
_SEEDS = st.integers(min_value=0, max_value=2**32)
_LAW = settings(max_examples=60, deadline=None)


# Where the last member of a free-form map is given up the real server leaves a null behind, and an
# empty list in its place appears at the second apply only. So the laws hold for the rest.
_FREE = ("free", "half", "any", "table")


def _lawful(rng: random.Random) -> dict[str, Any]:
    obj = applied(rng, "w")
    for name in _FREE:
        obj.get("spec", {}).pop(name, None)
    return dict(_filled(obj))


def _filled(value: object) -> Json:
    if isinstance(value, dict):
        inner = {key: _filled(item) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in ({}, [], None)}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def _grown(rng: random.Random, steps: int) -> Model:
    """An object after some random writes."""
    model = Model(REGISTRY)
    for _ in range(steps):
        if model.live is None or rng.random() < 0.6:
            model.apply(_lawful(rng), rng.choice("abc"), force=rng.random() < 0.5)
        else:
            patch = patched(rng)
            patch.pop("metadata", None)
            for name in _FREE:
                patch["spec"].pop(name, None)
            model.merge(patch, rng.choice("uv"))
    return model


def _without_times(obj: dict[str, Any] | None) -> dict[str, Any] | None:
    obj = copy.deepcopy(obj)
    for entry in (obj or {}).get("metadata", {}).get("managedFields", ()):
        entry.pop("time", None)
    return obj


@_LAW
@given(_SEEDS)
def test_applying_again_changes_nothing_not_even_the_times(seed: int) -> None:
    rng = random.Random(seed)
    model = _grown(rng, 4)
    obj = _lawful(rng)
    if model.apply(obj, "a", force=True)[0] >= 400:
        return
    first = copy.deepcopy(model.live)
    assert model.apply(obj, "a", force=False) == (200, "")
    assert model.live == first


@_LAW
@given(_SEEDS)
def test_a_new_manager_that_applies_and_lets_go_leaves_the_object_as_it_was(seed: int) -> None:
    rng = random.Random(seed)
    model = _grown(rng, 4)
    if model.live is None:
        return
    head = {key: model.live[key] for key in ("apiVersion", "kind")}
    start = copy.deepcopy(model.live)
    if not start.get("spec", {}).get("tags") or "managedFields" not in start["metadata"]:
        return
    # Something that nobody else has: what is there already would be taken away for good.
    extra = {**head, "metadata": {"name": "w"}, "spec": {"tags": ["new"]}}
    assert model.apply(extra, "new", force=False)[0] == 200
    assert "new" in model.live["spec"]["tags"]
    assert model.apply({**head, "metadata": {"name": "w"}}, "new", force=False)[0] == 200
    assert _without_times(model.live) == _without_times(start)


@_LAW
@given(_SEEDS)
def test_force_ends_in_ownership_of_everything_applied(seed: int) -> None:
    rng = random.Random(seed)
    model = _grown(rng, 4)
    obj = _lawful(rng)
    obj.pop("status", None)
    obj.setdefault("spec", {})["size"] = 7
    if model.apply(obj, "forcer", force=True)[0] >= 400:
        return
    assert model.live is not None
    owners = managed.decode(model.live["metadata"]["managedFields"])
    mine = owners[managed.identity("forcer", "Apply", model.version, "")]
    wanted = fields.difference(field_set(obj, model.schema.type), managed.STRIPPED)
    assert mine.fields == wanted


@_LAW
@given(_SEEDS)
def test_leaves_without_owner_that_are_absent(seed: int) -> None:
    rng = random.Random(seed)
    model = _grown(rng, 6)
    if model.live is None:
        return
    present = set(fields.paths(_whole(model)))
    for who, entry in managed.decode(model.live["metadata"].get("managedFields")).items():
        for path in fields.paths(fields.leaves(entry.fields)):
            assert path in present or _null_or_empty(model.live, path), (who, path)


def _whole(model: Model) -> fields.FieldSet:
    from ctrlruntime.envtest.merge.comparing import compare

    assert model.live is not None
    return compare({}, model.live, model.schema.type).added


def _null_or_empty(obj: object, path: fields.Path) -> bool:
    """Nulls and empty metadata that an applier wrote are dropped, yet stay its own."""
    value = obj
    for element in path:
        if not element.startswith("f:") or not isinstance(value, dict):
            return False
        if element[2:] not in value:
            return True
        value = value[element[2:]]
    return not value


@_LAW
@given(_SEEDS)
def test_no_field_has_two_owners_with_different_values(seed: int) -> None:
    """Whoever owns a leaf can apply its present value without a conflict."""
    rng = random.Random(seed)
    model = _grown(rng, 5)
    if model.live is None or "spec" not in model.live:
        return
    size = model.live["spec"].get("size")
    if size is None:
        return
    head = {key: model.live[key] for key in ("apiVersion", "kind")}
    obj = {**head, "metadata": {"name": "w"}, "spec": {"size": size}}
    assert model.apply(obj, "late", force=False)[0] == 200
    other = {**obj, "spec": {"size": size + 1}}
    owned = any(
        fields.has(entry.fields, ("f:spec", "f:size"))
        for who, entry in managed.decode(model.live["metadata"]["managedFields"]).items()
        if who.manager != "late"
    )
    assert model.apply(other, "late", force=False)[0] == (409 if owned else 200)


@_LAW
@given(_SEEDS)
def test_writes_leave_their_arguments_alone(seed: int) -> None:
    rng = random.Random(seed)
    model = _grown(rng, 3)
    obj, before = _lawful(rng), copy.deepcopy(model.live)
    kept, live = copy.deepcopy(obj), model.live
    model.apply(obj, "a", force=True)
    assert obj == kept
    assert live == before


@_LAW
@given(_SEEDS, _SEEDS)
def test_a_merge_patch_applied_twice_is_applied_once(one: int, two: int) -> None:
    doc, patch = spec(random.Random(one), 0.5), patched(random.Random(two))["spec"]
    once = merge_patch(doc, patch)
    assert merge_patch(once, patch) == once
    assert merge_patch(doc, {}) == doc


def test_at_most_ten_update_managers_are_kept() -> None:
    model = Model(REGISTRY)
    head = {"apiVersion": model.version, "kind": "Widget", "metadata": {"name": "w"}}
    model.apply({**head, "spec": {"size": 1}}, "a", force=False)
    for number in range(14):
        model.merge({"spec": {"free": {f"k{number}": "v"}}}, f"u{number:02d}")
    assert model.live is not None
    entries = model.live["metadata"]["managedFields"]
    updates = [entry["manager"] for entry in entries if entry["operation"] == "Update"]
    assert updates == ["ancient-changes", *(f"u{n:02d}" for n in range(5, 14))]
    ancient = next(entry for entry in entries if entry["manager"] == "ancient-changes")
    assert ancient["fieldsV1"] == {
        "f:spec": {"f:free": {".": {}, **{f"f:k{n}": {} for n in range(5)}}}
    }


def test_kubectl_moves_from_client_side_to_server_side_apply() -> None:
    model = Model(REGISTRY)
    head = {"apiVersion": model.version, "kind": "Widget"}
    text = '{"apiVersion":"merge.example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1}}'
    name = "kubectl.kubernetes.io/last-applied-configuration"
    made = {**head, "metadata": {"name": "w", "annotations": {name: text}}, "spec": {"size": 1}}
    model.apply(made, "client-side", force=False)
    applied_now = {**head, "metadata": {"name": "w"}, "spec": {"size": 2}}
    assert model.apply(applied_now, "other", force=False)[0] == 409
    assert model.apply(applied_now, "kubectl", force=False)[0] == 200
    assert model.live is not None
    assert '"size":2' in model.live["metadata"]["annotations"][name]


def test_an_entry_of_another_version_is_compared_in_that_version() -> None:
    text = {"type": "string"}

    def schema_with(name: str) -> TypeSchema:
        properties = {"spec": {"type": "object", "properties": {name: text}}}
        return REGISTRY.for_crd_version({"type": "object", "properties": properties})

    schemas = {"g/v1": schema_with("old"), "g/v2": schema_with("new")}
    names = {"g/v1": "old", "g/v2": "new"}

    def convert(obj: dict[str, Any], version: str) -> tuple[dict[str, Any], TypeSchema] | None:
        if version not in schemas:
            return None
        value = next(iter((obj.get("spec") or {}).values()), None)
        shown = {} if value is None else {names[version]: value}
        return {**obj, "apiVersion": version, "spec": shown}, schemas[version]

    def write(
        live: Json, version: str, value: str, who: str, *, force: bool = False
    ) -> dict[str, Any]:
        obj = {
            "apiVersion": version,
            "kind": "A",
            "metadata": {"name": "a"},
            "spec": {names[version]: value},
        }
        if live is not None:
            live = (convert(live, version) or (live, None))[0]
        return apply(
            live,
            obj,
            manager=who,
            force=force,
            schema=schemas[version],
            api_version=version,
            now="2026-01-01T00:00:00Z",
            convert=convert,
        )

    first = write(None, "g/v1", "x", "one")
    with pytest.raises(ApplyConflict) as caught:
        write(first, "g/v2", "y", "two")
    assert caught.value.conflicts == [('"one"', ".spec.old")]
    taken = write(first, "g/v2", "y", "two", force=True)
    assert [entry["manager"] for entry in taken["metadata"]["managedFields"]] == ["two"]
    again = write(taken, "g/v1", "y", "two")
    assert [
        (entry["apiVersion"], entry["fieldsV1"]) for entry in again["metadata"]["managedFields"]
    ] == [("g/v1", {"f:spec": {"f:old": {}}})]
    gone = write(again, "g/v1", "z", "three", force=True)
    stale = copy.deepcopy(gone)
    stale["metadata"]["managedFields"][0]["apiVersion"] = "g/v0"
    left = write(stale, "g/v2", "q", "four")
    assert [entry["manager"] for entry in left["metadata"]["managedFields"]] == ["four"]
