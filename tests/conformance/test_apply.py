"""Server-side apply: who owns what, what conflicts, what goes when nobody owns it any more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ctrlruntime.api.scalars import format_time
from ctrlruntime.json import Json

from .manifests import GROUP, shape, widget
from .wire import APPLY, JSON_PATCH, MERGE, Api

pytestmark = pytest.mark.custom


def entries(obj: Json) -> list[tuple[str, str, str]]:
    """Manager, operation and subresource of each entry of managedFields."""
    return [
        (entry["manager"], entry["operation"], entry.get("subresource", ""))
        for entry in obj["metadata"].get("managedFields") or ()
    ]


def owned(obj: Json, manager: str, operation: str = "Apply", subresource: str = "") -> Json:
    """What the manager owns; None where it has no entry."""
    for entry in obj["metadata"].get("managedFields") or ():
        found = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        if found == (manager, operation, subresource):
            return entry["fieldsV1"]
    return None


async def conflict(api: Api, path: str, obj: object, manager: str) -> list[tuple[str, str]]:
    """Message and field of each cause of a conflict."""
    answer = await api.refusal("PATCH", f"{path}?fieldManager={manager}", obj, APPLY)
    assert (answer["code"], answer["reason"]) == (409, "Conflict")
    causes = answer["details"]["causes"]
    assert {cause["reason"] for cause in causes} == {"FieldManagerConflict"}
    return [(cause["message"], cause["field"]) for cause in causes]


async def test_lists_and_maps_are_owned_by_their_kind(api: Api, shaped: str) -> None:
    spec = {
        "ports": [{"port": 1}, {"port": 1, "protocol": "UDP", "name": "u"}],
        "names": ["b", "a"],
        "atoms": ["x", "y"],
        "plain": ["p"],
        "whole": {"k": "v"},
        "parts": {"k": "v"},
        **({"port": "http"} if api.has("apply by schema") else {}),
        "nested": {"name": "m", "deep": {"a": 1}},
    }
    before = format_time(datetime.now(UTC))
    made = await api.apply(f"{shaped}/s", shape("s", spec))
    after = format_time(datetime.now(UTC))
    assert owned(made, "m") == {
        "f:spec": {
            "f:atoms": {},
            "f:names": {'v:"a"': {}, 'v:"b"': {}},
            "f:nested": {"f:deep": {"f:a": {}}, "f:name": {}},
            "f:parts": {"f:k": {}},
            "f:plain": {},
            **({"f:port": {}} if api.has("apply by schema") else {}),
            "f:ports": {
                'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}},
                'k:{"port":1,"protocol":"UDP"}': {
                    ".": {},
                    "f:name": {},
                    "f:port": {},
                    "f:protocol": {},
                },
            },
            "f:whole": {},
        }
    }
    assert made["spec"]["ports"][0] == {"port": 1, "protocol": "TCP"}
    assert (made["spec"]["mode"], made["spec"]["note"]) == ("on", "none")
    entry = made["metadata"]["managedFields"][0]
    assert (entry["apiVersion"], entry["fieldsType"]) == (f"{GROUP}/v1", "FieldsV1")
    assert before <= entry["time"] <= after
    assert before <= made["metadata"]["creationTimestamp"] <= after


@pytest.mark.parametrize(
    ("first", "second", "fields"),
    [
        ({"mode": "on"}, {"mode": "off"}, [".spec.mode"]),
        ({"atoms": ["a"]}, {"atoms": ["a", "b"]}, [".spec.atoms"]),
        ({"plain": ["a"]}, {"plain": ["b"]}, [".spec.plain"]),
        ({"whole": {"a": "1"}}, {"whole": {"b": "1"}}, [".spec.whole"]),
        ({"parts": {"a": "1", "b": "1"}}, {"parts": {"a": "2", "b": "2"}}, [".spec.parts.a", ".spec.parts.b"]),
        (
            {"ports": [{"port": 1, "name": "a"}]},
            {"ports": [{"port": 1, "name": "b"}]},
            ['.spec.ports[port=1,protocol="TCP"].name'],
        ),
        pytest.param(
            {"port": 1}, {"port": "a"}, [".spec.port"], marks=pytest.mark.since("apply by schema")
        ),
    ],
)  # fmt: skip
async def test_conflicts_name_manager_and_field(
    api: Api, shaped: str, first: Json, second: Json, fields: list[str]
) -> None:
    path = f"{shaped}/s"
    await api.apply(path, shape("s", first), "one")
    found = await conflict(api, path, shape("s", second), "two")
    assert found == [('conflict with "one"', field) for field in fields]
    forced = await api.apply(path, shape("s", second), "two", force="true")
    assert owned(forced, "two")["f:spec"].keys() == {f"f:{name}" for name in second}
    left = owned(forced, "one") or {}
    assert "ports" in first or not left.get("f:spec")


@pytest.mark.since("removals by apply")
async def test_same_values_are_shared_without_conflict(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    spec = {"mode": "off", "names": ["a"], "parts": {"k": "v"}}
    await api.apply(path, shape("s", spec), "one")
    after = await api.apply(path, shape("s", spec), "two")
    assert owned(after, "one") == owned(after, "two")
    left = await api.apply(path, shape("s", {}), "one")
    assert left["spec"]["mode"] == "off"
    assert owned(left, "one") == {"f:spec": {}}
    gone = await api.apply(path, shape("s", {}), "two")
    assert "names" not in gone["spec"]
    assert gone["spec"]["mode"] == "on"


@pytest.mark.since("removals by apply")
async def test_what_an_apply_leaves_out_goes(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    first = {
        "names": ["a", "b", "c"],
        "ports": [{"port": 1, "name": "x"}, {"port": 2}],
        "parts": {"a": "1", "b": "1"},
        "count": 5,
    }
    await api.apply(path, shape("s", first))
    second = {"names": ["b"], "ports": [{"port": 2}], "parts": {"b": "1"}}
    after = await api.apply(path, shape("s", second))
    assert after["spec"]["names"] == ["b"]
    assert [port["port"] for port in after["spec"]["ports"]] == [2]
    assert after["spec"]["parts"] == {"b": "1"}
    assert "count" not in after["spec"]
    empty = await api.apply(path, shape("s", {"mode": "on"}))
    assert set(empty["spec"]) == {"mode", "note", "nested"}


async def test_what_another_owns_stays(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    await api.apply(path, shape("s", {"names": ["a"], "ports": [{"port": 1}], "count": 5}), "one")
    await api.apply(path, shape("s", {"names": ["b"], "ports": [{"port": 2}]}), "two")
    after = await api.apply(path, shape("s", {"count": 5}), "one")
    assert after["spec"]["names"] == ["b"]
    assert [port["port"] for port in after["spec"]["ports"]] == [2]


@pytest.mark.since("order of applied lists")
async def test_lists_take_the_order_of_the_applier(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    await api.apply(path, shape("s", {"names": ["a", "b", "c"]}), "one")
    added = await api.apply(path, shape("s", {"names": ["d"]}), "two")
    assert added["spec"]["names"] == ["a", "b", "c", "d"]
    after = await api.apply(path, shape("s", {"names": ["c", "a", "b"]}), "one")
    assert after["spec"]["names"] == ["c", "d", "a", "b"]


async def test_an_update_takes_fields_from_appliers(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    made = await api.apply(path, shape("s", {"count": 5, "names": ["a"], "mode": "off"}))
    made["spec"]["count"] = 10
    made["spec"]["names"] = ["a", "b"]
    after = await api.call("PUT", path, made)
    assert owned(after, "m") == {"f:spec": {"f:mode": {}, "f:names": {'v:"a"': {}}}}
    assert owned(after, "tests", "Update") == {"f:spec": {"f:count": {}, "f:names": {'v:"b"': {}}}}
    found = await conflict(api, path, shape("s", {"count": 15}), "m")
    assert found == [(f'conflict with "tests" using {GROUP}/v1', ".spec.count")]


async def test_conflicts_with_several_managers_are_listed(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    await api.apply(path, shape("s", {"count": 5}), "one")
    await api.apply(path, shape("s", {"mode": "off"}), "two")
    wanted = shape("s", {"count": 10, "mode": "on"})
    answer = await api.refusal("PATCH", f"{path}?fieldManager=three", wanted, APPLY)
    lines = answer["message"].splitlines()
    assert lines[0] == 'Apply failed with 2 conflicts: conflicts with "one":'
    assert lines[1:] == ["- .spec.count", 'conflicts with "two":', "- .spec.mode"]
    assert len(answer["details"]["causes"]) == 2


async def test_ownership_moves_by_giving_up(api: Api, shaped: str) -> None:
    """The transfer of the documentation: the new owner takes the value, the old one leaves it out."""
    path = f"{shaped}/s"
    await api.apply(path, shape("s", {"count": 5, "mode": "off"}), "old")
    await api.apply(path, shape("s", {"count": 5}), "new")
    await api.apply(path, shape("s", {"mode": "off"}), "old")
    after = await api.apply(path, shape("s", {"count": 10}), "new")
    assert after["spec"]["count"] == 10
    assert owned(after, "old") == {"f:spec": {"f:mode": {}}}
    assert owned(after, "new") == {"f:spec": {"f:count": {}}}


async def test_managed_fields_are_wiped_but_not_written(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    made = await api.apply(path, shape("s", {"count": 5}))
    same = await api.merge(path, {"metadata": {"managedFields": []}})
    assert same["metadata"]["managedFields"] == made["metadata"]["managedFields"]
    wiped = await api.merge(path, {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in wiped["metadata"]
    after = await api.apply(path, shape("s", {"count": 5}), "next")
    assert ("before-first-apply", "Update", "") in entries(after)
    sent = shape("s", {"count": 5}, managedFields=made["metadata"]["managedFields"])
    code, reason, message = await api.fails("PATCH", f"{path}?fieldManager=m", sent, APPLY)
    assert (code, reason) == (400, "BadRequest")
    assert message == "metadata.managedFields must be nil"


async def test_an_object_without_managers_gets_one_before_the_first_apply(
    api: Api, shaped: str
) -> None:
    path = f"{shaped}/s"
    await api.create(shaped, shape("s", {"count": 5}, managedFields=[{}]))
    await api.merge(path, {"metadata": {"managedFields": [{}]}})
    found = await conflict(api, path, shape("s", {"count": 10}), "m")
    assert found == [(f'conflict with "before-first-apply" using {GROUP}/v1', ".spec.count")]


@pytest.mark.parametrize("version", ["", "0"])
async def test_an_apply_may_be_conditional(api: Api, shaped: str, version: str) -> None:
    path = f"{shaped}/s"
    made = await api.apply(path, shape("s", {"count": 5}))
    current = made["metadata"]["resourceVersion"]
    after = await api.apply(path, shape("s", {"count": 10}, resourceVersion=current))
    assert after["spec"]["count"] == 10
    code, reason, message = await api.fails(
        "PATCH",
        f"{path}?fieldManager=m",
        shape("s", {"count": 15}, resourceVersion=current),
        APPLY,
    )
    assert (code, reason) == (409, "Conflict")
    assert message.endswith("please apply your changes to the latest version and try again")
    code, _, message = await api.fails(
        "PATCH",
        f"{path}?fieldManager=m",
        shape("s", {"count": 20}, resourceVersion=version),
        APPLY,
    )
    assert (code, "must be specified for an update" in message) == (422, True)


async def test_what_cannot_be_applied(api: Api, shaped: str) -> None:
    path = f"{shaped}/s?fieldManager=m"
    not_an_object = "json: cannot unmarshal array into Go value of type map[string]interface {}"
    for body, text in (
        (b"[]", not_an_object),
        (b"{", "error decoding YAML: "),
        (b'{"apiVersion": "v1", "kind": "Shape"}', ""),
        (b'{"kind": "Shape"}', ""),
        (b"{}", ""),
    ):
        code, _, message = await api.fails("PATCH", path, body, APPLY)
        assert (code, text in message) == (400, True), message
        if not text and api.has("types of applies"):
            assert message.startswith("invalid object type: ")
    nameless = {"apiVersion": f"{GROUP}/v1", "kind": "Shape"}
    _, _, message = await api.fails("PATCH", path, nameless, APPLY)
    assert message == (
        "the name of the object (s based on URL) was undeterminable: name must be provided"
    )
    wrong = shape("t", {})
    code, _, message = await api.fails("PATCH", path, wrong, APPLY)
    assert code == 400
    unknown = shape("s", {"bogus": 1})
    code, _, message = await api.fails("PATCH", path, unknown, APPLY)
    assert code == 500
    assert message.endswith(".spec.bogus: field not declared in schema")
    assert "failed to create typed patch object" in message
    twice = shape("s", {"names": ["a", "a"]})
    code, _, message = await api.fails("PATCH", path, twice, APPLY)
    assert (code, "names" in message) == (500, True)


async def test_of_several_undeclared_fields_of_an_object_one_is_named(
    api: Api, shaped: str
) -> None:
    """The walk of an object ends at the first of them, in no fixed order, and goes on elsewhere."""
    path = f"{shaped}/s?fieldManager=m"
    wrong = shape("s", {"bogus": 1, "other": 1, "more": 1}, bogus="x", other="x")
    for _ in range(4):
        code, _, message = await api.fails("PATCH", path, wrong, APPLY)
        assert code == 500
        assert message.count("field not declared in schema") == 2
        assert message.count(".spec.") == message.count(".metadata.") == 1


async def test_an_undeclared_field_is_reported_whatever_else_is_wrong(
    api: Api, shaped: str
) -> None:
    path = f"{shaped}/s?fieldManager=m"
    wrong = shape("s", {"names": ["a", "a"], "bogus": 1, "ports": [{"port": 1}, {"port": 1}]})
    code, _, message = await api.fails("PATCH", path, wrong, APPLY)
    assert (code, ".spec.bogus: field not declared in schema" in message) == (500, True)
    repeated = shape("s", {"names": ["a", "a"], "ports": [{"port": 1}, {"port": 1}]})
    code, _, message = await api.fails("PATCH", path, repeated, APPLY)
    assert (code, message.count("duplicate entries for key")) == (500, 2)


async def test_an_object_given_up_goes_with_what_was_filled_in(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    made = await api.apply(path, shape("s", {"count": 5, "box": {"size": 1}}))
    assert made["spec"]["box"] == {"lid": "shut", "size": 1}
    left = await api.apply(path, shape("s", {"count": 5}))
    assert "box" not in left["spec"]


async def test_an_object_given_up_keeps_what_others_own(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    await api.apply(path, shape("s", {"count": 5, "box": {"size": 1}}), "one")
    await api.apply(path, shape("s", {"box": {"lid": "shut"}}), "two")
    left = await api.apply(path, shape("s", {"count": 5}), "one")
    assert left["spec"]["box"] == {"lid": "shut"}


async def test_an_apply_that_changes_nothing_writes_nothing(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    wanted = shape("s", {"count": 5, "ports": [{"port": 1}], "names": ["b", "a"]})
    made = await api.apply(path, wanted)
    for _ in range(2):
        assert await api.apply(path, wanted) == made


async def test_status_is_owned_apart(api: Api, widgets: str) -> None:
    path = f"{widgets}/w"
    both = {**widget("w", {"size": 1}), "status": {"phase": "p"}}
    made = await api.apply(path, both)
    assert "status" not in made
    assert owned(made, "m") == {"f:spec": {"f:size": {}}}
    after = await api.apply(f"{path}/status", {**both, "spec": {"size": 3}})
    assert (after["spec"]["size"], after["status"]) == (1, {"phase": "p"})
    assert owned(after, "m", subresource="status") == {"f:status": {"f:phase": {}}}
    assert after["metadata"]["generation"] == 1
    merged = await api.merge(f"{path}/status", {"status": {"phase": "q"}})
    assert entries(merged) == [("m", "Apply", ""), ("tests", "Update", "status")]
    found = await conflict(
        api, f"{path}/status", {**widget("w"), "spec": {}, "status": {"phase": "r"}}, "m"
    )
    assert found == [
        (f'conflict with "tests" with subresource "status" using {GROUP}/v1', ".status.phase")
    ]
    code, reason, _ = await api.fails(
        "PATCH", f"{widgets}/none/status?fieldManager=m", widget("none"), APPLY
    )
    assert (code, reason) == (404, "NotFound")


async def test_apply_of_finalizers_and_labels(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    one = shape("s", labels={"a": "1"}, finalizers=["example.com/a"])
    two = shape("s", labels={"b": "1"}, finalizers=["example.com/b"])
    await api.apply(path, one, "one")
    after = await api.apply(path, two, "two")
    assert after["metadata"]["labels"] == {"a": "1", "b": "1"}
    assert sorted(after["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    left = await api.apply(path, shape("s"), "one")
    assert left["metadata"]["labels"] == {"b": "1"}
    assert left["metadata"]["finalizers"] == ["example.com/b"]


async def test_an_update_that_does_not_repeat_a_deletion_leaves_it_without_owner(
    api: Api, shaped: str
) -> None:
    """Who owned everything before the first apply owned the mark of the deletion too."""
    path = f"{shaped}/s"
    await api.create(shaped, shape("s", {"count": 5}, finalizers=["example.com/a"]))
    await api.call("DELETE", path)
    wipe = [{"op": "add", "path": "/metadata/managedFields", "value": [{}]}]
    await api.call("PATCH", path, wipe, JSON_PATCH)
    applied = await api.apply(path, shape("s", labels={"a": "1"}))
    mark = {"f:deletionTimestamp", "f:deletionGracePeriodSeconds"}
    assert mark <= owned(applied, "before-first-apply", "Update")["f:metadata"].keys()
    applied = await api.merge(path, {"metadata": {"labels": {"b": "1"}}})
    assert mark <= owned(applied, "before-first-apply", "Update")["f:metadata"].keys()
    sent = shape("s", {"count": 5}, finalizers=["example.com/a"], labels={"a": "1"})
    sent["metadata"]["resourceVersion"] = applied["metadata"]["resourceVersion"]
    updated = await api.call("PUT", path, sent)
    assert updated["metadata"]["deletionTimestamp"] == applied["metadata"]["deletionTimestamp"]
    left = owned(updated, "before-first-apply", "Update").get("f:metadata", {})
    assert not mark & left.keys()
    await api.merge(path, {"metadata": {"finalizers": None}})


async def test_generation_of_an_apply(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    await api.apply(path, shape("s", {"count": 5}))
    same = await api.apply(path, shape("s", {"count": 5}), "other")
    assert same["metadata"]["generation"] == 1
    entry = next(e for e in same["metadata"]["managedFields"] if e["manager"] == "other")
    assert entry["operation"] == "Apply"
    more = await api.apply(path, shape("s", {"count": 10}), "other", force="true")
    assert more["metadata"]["generation"] == 2


async def test_a_json_patch_and_a_merge_patch_are_updates(api: Api, shaped: str) -> None:
    path = f"{shaped}/s"
    await api.create(f"{shaped}?fieldManager=maker", shape("s", {"count": 5}))
    patch = [{"op": "add", "path": "/spec/yes", "value": True}]
    await api.call("PATCH", f"{path}?fieldManager=json", patch, JSON_PATCH)
    after = await api.call("PATCH", f"{path}?fieldManager=merge", {"spec": {"mode": "off"}}, MERGE)
    assert owned(after, "json", "Update") == {"f:spec": {"f:yes": {}}}
    assert owned(after, "merge", "Update") == {"f:spec": {"f:mode": {}}}
    maker = owned(after, "maker", "Update")["f:spec"]
    assert "f:count" in maker
    assert "f:mode" not in maker
    gone = await api.merge(path, {"spec": {"yes": None}})
    assert owned(gone, "json", "Update") is None


@pytest.mark.since("emptied by their applier")
@pytest.mark.kube_apiserver("Debian builds the other with an older library for applies")
async def test_what_an_apply_empties_stays_as_it_was_sent(api: Api, shaped: str) -> None:
    """A map of which all is given up is empty, a list of which all is given up is gone."""
    path = f"{shaped}/s"
    for given, left in (
        ({"parts": {}}, {"parts": {}}),
        ({"parts": {"a": "2"}, "names": []}, {"parts": {"a": "2"}}),
        ({"parts": {"a": "2"}, "names": None}, {"parts": {"a": "2"}}),
        ({}, {}),
    ):
        await api.apply(path, shape("s", {"parts": {"a": "1"}, "names": ["a"]}), force="true")
        after = await api.apply(path, shape("s", given), force="true")
        assert {k: v for k, v in after["spec"].items() if k in ("parts", "names")} == left, given
