"""Events of our own writes are told from others without decoding them, and only where that is certain."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.cache.own_events import LIMIT, OwnEvents
from ctrlruntime.cache.store import Store

pytestmark = pytest.mark.criterion("PF-2")

KIND = GroupVersionKind("", "v1", "ConfigMap")


def manifest(name: str = "a", version: str = "7", **more: object) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, **more}}


def annotated(annotation: str, version: str = "7") -> dict[str, Any]:
    """Annotations come first, as the server writes them for custom resources."""
    found = manifest(version=version)
    return {"metadata": {"annotations": {"resourceVersion": annotation}, **found["metadata"]}}


def written(version: str = "7") -> Entry:
    return EntryDecoder(KIND).decode_manifest(manifest(version=version))


def event(change: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": change, "object": obj})


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def events(store: Store) -> OwnEvents:
    found = OwnEvents(store)
    store.put(entry := written())
    found.expect(entry)
    return found


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED"])
def test_the_event_of_an_own_write_is_the_entry_of_the_store(
    events: OwnEvents, store: Store, change: str
) -> None:
    assert events.reported(event(change, manifest())) is store.get_by_key(("ns", "a"))
    assert len(events) == 0


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(event("DELETED", manifest()), id="a deletion"),
        pytest.param(event("BOOKMARK", manifest()), id="a bookmark"),
        pytest.param(event("MODIFIED", manifest(version="8")), id="another version"),
        pytest.param(event("MODIFIED", manifest(version="70")), id="a longer version"),
        pytest.param(event("MODIFIED", manifest(uid="uid-other")), id="another object"),
        pytest.param(
            event("MODIFIED", annotated("7", version="8")),
            id="a version in an annotation, before another of its own",
        ),
        pytest.param(
            event("MODIFIED", manifest(version="7", annotations={"resourceVersion": "8"})),
            id="two versions",
        ),
        pytest.param(b'{"type":"MODIFIED",', id="half a line"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_everything_else_is_decoded(events: OwnEvents, line: bytes) -> None:
    assert events.reported(line) is None


def test_an_entry_that_was_replaced_since_is_not_what_the_event_reports(
    events: OwnEvents, store: Store
) -> None:
    store.put(written(version="9"))
    assert events.reported(event("MODIFIED", manifest())) is None


def test_an_entry_that_has_left_the_store_is_not_reported(events: OwnEvents, store: Store) -> None:
    store.remove(("ns", "a"))
    assert events.reported(event("MODIFIED", manifest())) is None


def test_what_is_awaited_is_bounded(store: Store) -> None:
    events = OwnEvents(store)
    for number in range(3 * LIMIT):
        events.expect(written(version=str(number)))
    assert len(events) <= LIMIT
