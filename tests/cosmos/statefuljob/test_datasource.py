"""Which snapshot a claim is made from."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis.cosmos import AutoDataSource
from ctrlruntime.cache.entry import Entry, EntryDecoder
from internal.cosmos.datasource import from_snapshot, newest_ready, selector_of
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT, error_of, restore_size

DECODER = EntryDecoder(VOLUME_SNAPSHOT.gvk)


def snapshot(name: str, status: object = None, **metadata: object) -> Entry:
    return DECODER.decode_manifest({"metadata": {"name": name, **metadata}, "status": status})


@pytest.mark.criterion("COSMOS-A6-18")
def test_the_newest_that_is_ready() -> None:
    old = snapshot("old", {"readyToUse": True, "creationTime": "2026-03-01T00:00:00Z"})
    new = snapshot("new", {"readyToUse": True, "creationTime": "2026-03-02T00:00:00+01:00"})
    newer = snapshot("newer", {"readyToUse": False, "creationTime": "2026-03-03T00:00:00Z"})
    timeless = snapshot("timeless", {"readyToUse": True})
    going = snapshot(
        "going",
        {"readyToUse": True, "creationTime": "2026-03-09T00:00:00Z"},
        deletionTimestamp="2026-03-09T00:00:00Z",
    )
    assert newest_ready([new, old, newer, timeless, going]) is new
    assert newest_ready([timeless]) is timeless
    assert newest_ready([newer, snapshot("untouched")]) is None


def test_a_size_that_is_not_reported() -> None:
    assert from_snapshot(snapshot("s", {"readyToUse": True})).size is None
    assert restore_size(snapshot("s", {"restoreSize": "much"})) is None
    assert restore_size(snapshot("s", {"restoreSize": "5Gi"})) == "5Gi"
    assert restore_size(snapshot("s", {"restoreSize": 1024})) == "1024"


def test_an_error_without_a_message_is_one() -> None:
    assert error_of(snapshot("s", {"error": {}})) is not None
    assert error_of(snapshot("s", {"error": None})) is None


@pytest.mark.criterion("COSMOS-A2-33", "COSMOS-A10-202")
def test_the_spec_keeps_its_own_labels() -> None:
    source = AutoDataSource(volume_snapshot_selector={"app": "chain"}, match_instance=True)
    for ordinal in range(2):
        found = selector_of(source, f"hub-{ordinal}")
        assert found == {"app": "chain", "app.kubernetes.io/instance": f"hub-{ordinal}"}
    assert source.volume_snapshot_selector == {"app": "chain"}


@settings(deadline=None, max_examples=50)
@given(st.permutations(range(6)))
def test_no_order_matters(order: list[int]) -> None:
    made = [
        snapshot(f"s-{number}", {"readyToUse": number % 4 != 3, "creationTime": _at(number)})
        for number in order
    ]
    found = newest_ready(made)
    assert found is not None
    assert found.name == "s-5"


def _at(number: int) -> str:
    return f"2026-03-0{1 + number // 2}T00:00:00Z"
