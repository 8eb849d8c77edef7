"""diff(current, desired): disjoint creates, updates, deletes and conflicts, in a stable order."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Unpack

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.resources.desired import Desired, ObjectKey
from ctrlruntime.resources.diff import Reason, Settled, diff
from ctrlruntime.resources.ownership import UNRECORDED, Owner
from tests.resources.ordinal_factories import DesiredSettings

CONFIG_MAP = RESTMapping(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", namespaced=True)
OWNER = Owner(
    gvk=GroupVersionKind("tenancy.ctrlruntime.dev", "v1", "Tenant"),
    namespace="ns",
    name="acme",
    uid="uid-1",
)
DECODER = EntryDecoder(CONFIG_MAP.gvk, metadata_only=True, track_manager="me")


def desired(name: str = "a", value: str = "1", **settings: Unpack[DesiredSettings]) -> Desired:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns"},
        "data": {"key": value},
    }
    return Desired(mapping=CONFIG_MAP, manifest=manifest, **settings)


def stored(item: Desired, *, owner: Owner = OWNER, **metadata: object) -> Entry:
    """What the cache holds after `item` was applied for `owner`, with metadata replaced."""
    body = item.body(owner)
    fields = {
        "f:metadata": {
            "f:annotations": {f"f:{name}": {} for name in body["metadata"]["annotations"]},
            "f:ownerReferences": {f'k:{{"uid":"{owner.uid}"}}': {}},
        },
        "f:data": {"f:key": {}},
    }
    body["metadata"] |= {
        "uid": f"object-{item.name}",
        "resourceVersion": "5",
        "managedFields": [{"manager": "me", "operation": "Apply", "fieldsV1": fields}],
        **metadata,
    }
    return DECODER.decode(orjson.dumps(body))


def by_key(*entries: Entry) -> Mapping[ObjectKey, Entry]:
    group_kind = CONFIG_MAP.gvk.group_kind
    return {
        ObjectKey(group_kind, entry.name, namespace=entry.namespace): entry for entry in entries
    }


def reasons(
    *entries: Entry,
    wanted: Desired,
    settled: Callable[[ObjectKey], Settled | None] = lambda _key: None,
) -> list[Reason]:
    found = diff(by_key(*entries), [wanted], OWNER, settled=settled)
    assert not found.creates
    assert not found.deletes
    return [update.reason for update in found.updates]


@pytest.mark.criterion("COSMOS-A10-7")
def test_an_object_as_desired_is_no_difference() -> None:
    assert not diff(by_key(stored(desired())), [desired()], OWNER)


def test_an_absent_object_is_a_create_and_a_surplus_one_a_delete() -> None:
    found = diff(by_key(stored(desired("old"))), [desired("new")], OWNER)
    assert [item.name for item in found.creates] == ["new"]
    assert [entry.name for entry in found.deletes] == ["old"]
    assert not found.updates


def test_another_content_is_another_revision() -> None:
    assert reasons(stored(desired(value="1")), wanted=desired(value="2")) == [Reason.REVISION]


@pytest.mark.criterion("drift")
def test_a_field_lost_to_another_manager_is_drift() -> None:
    lost = stored(desired(), managedFields=[])
    assert reasons(lost, wanted=desired()) == [Reason.DRIFT]


def test_a_field_the_server_never_took_is_no_drift_once_that_is_known() -> None:
    entry = stored(desired(), managedFields=[])
    assert reasons(
        entry,
        wanted=desired(),
        settled=lambda _key: Settled(OWNER.uid, entry.uid, desired().revision, entry.owned),
    ) == [Reason.DRIFT]
    part = stored(
        desired(),
        managedFields=[{"manager": "me", "operation": "Apply", "fieldsV1": {"f:data": {}}}],
    )
    assert (
        reasons(
            part,
            wanted=desired(),
            settled=lambda _key: Settled(OWNER.uid, part.uid, desired().revision, part.owned),
        )
        == []
    )


def test_an_ignored_path_is_no_drift() -> None:
    entry = stored(desired())
    without_data = orjson.loads(entry.owned or b"")
    del without_data["f:data"]
    changed = stored(
        desired(),
        managedFields=[{"manager": "me", "operation": "Apply", "fieldsV1": without_data}],
    )
    assert reasons(changed, wanted=desired()) == [Reason.DRIFT]
    assert reasons(changed, wanted=desired(ignored=("data",))) == []


def test_once_is_never_updated_for_content_or_drift() -> None:
    entry = stored(desired(value="1"), managedFields=[])
    assert reasons(entry, wanted=desired(value="2", once=True)) == []


def test_a_changed_policy_renews_the_record() -> None:
    assert reasons(stored(desired()), wanted=desired(reference=False)) == [Reason.TRACKING]
    assert reasons(stored(desired()), wanted=desired(labels={"l": "1"})) == [Reason.TRACKING]


@pytest.mark.criterion("restore-from-backup")
def test_our_key_under_a_uid_that_no_longer_exists_is_adopted() -> None:
    former = Owner(gvk=OWNER.gvk, namespace="ns", name="acme", uid="uid-0")
    restored = stored(desired(), owner=former, ownerReferences=[])
    assert reasons(restored, wanted=desired()) == [Reason.ADOPTION]


@pytest.mark.criterion("ownership")
def test_a_live_owner_of_another_uid_is_a_conflict_and_never_deleted() -> None:
    other = Owner(gvk=OWNER.gvk, namespace="ns", name="acme", uid="uid-2")
    entry = stored(desired(), owner=other, ownerReferences=[])
    found = diff(by_key(entry), [desired()], OWNER, alive=lambda uid: uid == "uid-2")
    assert [conflict.desired.name for conflict in found.conflicts] == ["a"]
    assert not diff(by_key(entry), [], OWNER, alive=lambda uid: uid == "uid-2").deletes


@pytest.mark.criterion("ownership")
def test_an_object_without_a_record_is_foreign() -> None:
    entry = DECODER.decode(
        orjson.dumps(
            {"metadata": {"name": "a", "namespace": "ns", "uid": "x", "resourceVersion": "1"}}
        )
    )
    found = diff(by_key(entry), [desired()], OWNER)
    assert [conflict.holder for conflict in found.conflicts] == [UNRECORDED]
    assert not diff(by_key(entry), [], OWNER)


def test_an_object_being_deleted_is_left_alone() -> None:
    going = stored(desired(value="1"), deletionTimestamp="2026-01-01T00:00:00Z")
    assert not diff(by_key(going), [desired(value="2")], OWNER)
    assert not diff(by_key(going), [], OWNER)


NAMES = st.sets(st.sampled_from("abcdef"), max_size=6)


@pytest.mark.criterion("diff-laws", "COSMOS-A2-5")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(NAMES, NAMES, NAMES, st.randoms())
def test_the_parts_are_disjoint_complete_and_in_a_stable_order(
    existing: set[str], wanted: set[str], changed: set[str], random: Random
) -> None:
    current = by_key(*(stored(desired(name)) for name in sorted(existing)))
    items = [desired(name, "2" if name in changed else "1", ordinal=ord(name)) for name in wanted]
    random.shuffle(items)
    found = diff(current, items, OWNER)
    assert [item.name for item in found.creates] == sorted(wanted - existing)
    assert [update.desired.name for update in found.updates] == sorted(wanted & existing & changed)
    assert [entry.name for entry in found.deletes] == sorted(existing - wanted, reverse=True)


@pytest.mark.criterion("H-R3")
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("changed", [{"blockOwnerDeletion": False}, {"controller": False}, None])
def test_an_owner_reference_that_was_changed_is_restored(
    once: bool, changed: dict[str, bool] | None
) -> None:
    item = desired(once=once)
    (reference,) = item.body(OWNER)["metadata"]["ownerReferences"]
    references = [] if changed is None else [{**reference, **changed}]
    entry = stored(item, ownerReferences=references)
    (update,) = diff({item.key: entry}, [item], OWNER).updates
    assert update.reason is Reason.TRACKING
