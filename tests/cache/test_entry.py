"""Entries keep every field of an object but managedFields, and own their bytes."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder, normalise_owned
from ctrlruntime.client.reads import list_items
from tests.cache.conftest import CONFIG_MAP, manifest

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")

FULL: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u-1",
        "resourceVersion": "17",
        "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "deletionTimestamp": "2026-01-03T03:04:05Z",
        "deletionGracePeriodSeconds": 0,
        "generateName": "we",
        "labels": {"app": "web"},
        "annotations": {"note": "a"},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "boss",
                "uid": "u-0",
                "controller": True,
                "blockOwnerDeletion": False,
            },
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "aunt", "uid": "u-9"},
        ],
        "finalizers": ["example.com/wait"],
    },
    "spec": {"replicas": 2, "text": "grün", "big": 9007199254740993},
    "status": {"readyReplicas": 1},
    "odd": [1, None, {"x": True}],
}


def test_decode_gives_back_the_object_without_managed_fields() -> None:
    sent = orjson.loads(orjson.dumps(FULL))
    sent["metadata"]["managedFields"] = [{"manager": "m", "operation": "Apply"}]
    assert EntryDecoder(DEPLOYMENT).decode(orjson.dumps(sent)).decode() == FULL


@pytest.mark.criterion("CA-15")
@pytest.mark.parametrize("metadata_only", [False, True])
@pytest.mark.parametrize(
    "fields", [{}, {"managedFields": None}, {"managedFields": [{"manager": "m", "x": 1}]}]
)
def test_managed_fields_are_left_out_whatever_they_are(
    fields: dict[str, Any], metadata_only: bool
) -> None:
    decoder = EntryDecoder(CONFIG_MAP, metadata_only=metadata_only)
    sent = manifest("a", deletionTimestamp="2026-01-01T00:00:00Z", **fields)
    entry = decoder.decode(orjson.dumps(sent))
    assert "managedFields" not in entry.metadata()
    assert "managedFields" not in entry.decode()["metadata"]
    assert entry.owned is None
    assert entry.name == "a"


@pytest.mark.criterion("CA-03")
def test_each_decode_is_the_callers_own_copy() -> None:
    entry = EntryDecoder(DEPLOYMENT).decode(orjson.dumps(FULL))
    first = entry.decode()
    first["metadata"]["labels"]["app"] = "changed"
    first["metadata"]["finalizers"].append("changed")
    first["spec"]["replicas"] = 99
    assert entry.decode() == FULL


def test_typed_facts_of_the_metadata() -> None:
    entry = EntryDecoder(DEPLOYMENT).decode(orjson.dumps(FULL))
    assert entry.key == ("shop", "web")
    assert entry.gvk == DEPLOYMENT
    assert entry.controller is not None
    assert (entry.controller.name, entry.controller.uid) == ("boss", "u-0")
    assert entry.field("status") == {"readyReplicas": 1}
    assert entry.field("nothing") is None
    assert entry.finalizers == ("example.com/wait",)


@pytest.mark.criterion("CA-14")
def test_metadata_only_entries_carry_the_kind_they_stand_for() -> None:
    partial = {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": FULL["metadata"],
    }
    entry = EntryDecoder(DEPLOYMENT, metadata_only=True).decode(orjson.dumps(partial))
    assert entry.decode() == {name: FULL[name] for name in ("apiVersion", "kind", "metadata")}


def test_metadata_only_drops_what_a_server_sends_in_excess() -> None:
    entry = EntryDecoder(DEPLOYMENT, metadata_only=True).decode(orjson.dumps(FULL))
    assert entry.fields == {}


def test_list_items_do_not_keep_their_page_alive() -> None:
    class Page(bytearray):
        """A buffer that can be watched."""

    page = Page(orjson.dumps({"items": [FULL, FULL]}))
    watched = weakref.ref(page)
    items = [*list_items(page)]  # type: ignore[arg-type]
    entry = EntryDecoder(DEPLOYMENT).decode(items[0])
    del items, page
    gc.collect()
    assert watched() is None
    assert entry.field("spec") == FULL["spec"]


def test_null_and_absent_metadata_are_the_same() -> None:
    body = (
        b'{"metadata":{"name":"a","creationTimestamp":null,"labels":null,"ownerReferences":null}}'
    )
    entry = EntryDecoder(DEPLOYMENT).decode(body)
    assert (entry.labels, entry.owners, entry.creation_timestamp) == ({}, (), "")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"metadata":7}', b'{"metadata":{"name":1}}']
)
def test_what_is_not_an_object_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        EntryDecoder(DEPLOYMENT).decode(body)


def managed(
    manager: str, operation: str, fields: object, subresource: str | None = None
) -> dict[str, object]:
    item = {"manager": manager, "operation": operation, "fieldsV1": fields}
    return item if subresource is None else {**item, "subresource": subresource}


class TestOwned:
    """The fields of the tracked manager's own apply, kept as bytes."""

    def decode(self, *items: object, tracker: EntryDecoder | None = None) -> Entry:
        metadata = {"name": "a", "managedFields": list(items)}
        decoder = tracker or EntryDecoder(DEPLOYMENT, track_manager="me")
        return decoder.decode(orjson.dumps({"metadata": metadata}))

    def test_all_entries_of_the_manager_count_but_those_of_subresources(self) -> None:
        entry = self.decode(
            managed("me", "Update", {"f:spec": {"f:paused": {}}}),
            managed("other", "Apply", {"f:b": {}}),
            managed("me", "Apply", {"f:status": {}}, "status"),
            managed("me", "Apply", {"f:spec": {"f:replicas": {}}}),
        )
        assert entry.owned == b'{"f:spec":{"f:paused":{},"f:replicas":{}}}'

    def test_a_manager_that_owns_nothing(self) -> None:
        assert self.decode(managed("other", "Apply", {"f:b": {}})).owned is None
        assert self.decode().owned is None

    def test_equal_sets_share_one_value_whatever_the_owner(self) -> None:
        tracker = EntryDecoder(DEPLOYMENT, track_manager="me")
        owned = [
            self.decode(
                managed(
                    "me",
                    "Apply",
                    {"f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{uid}"}}': {}}}},
                ),
                tracker=tracker,
            ).owned
            for uid in ("123-a", "456-b")
        ]
        assert owned[0] is owned[1]
        assert orjson.loads(owned[0] or b"") == {
            "f:metadata": {"f:ownerReferences": {'k:{"uid":"*"}': {}}}
        }

    def test_uids_elsewhere_are_left_alone(self) -> None:
        fields = orjson.dumps({"f:spec": {"f:list": {'k:{"uid":"keep"}': {}}}})
        assert normalise_owned(fields) == fields


def test_strings_that_recur_are_shared(entry_of: Callable[..., Entry]) -> None:
    one = entry_of("a", labels={"app": "web"}, finalizers=["f"])
    two = entry_of("b", labels={"app": "web"}, finalizers=["f"])
    assert one.namespace is two.namespace
    assert next(iter(one.labels.values())) is next(iter(two.labels.values()))
    assert one.finalizers[0] is two.finalizers[0]
