"""Which heights decide on the version of a node: of its disk, and of those that nodes report the believable ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.cosmos import ScheduledVolumeSnapshot
from internal.cosmos.fullnode.plausible import SPAN, STEP, believed
from internal.cosmos.fullnode.upgrade_gate import Crossings, crosses
from internal.cosmos.snapshots.effects import Create
from internal.cosmos.snapshots.snapshot_builder import build
from tests.cosmos.fullnode.harness import CLAIM, POD, NodeSetHarness, Place
from tests.cosmos.servers.snapshotcrds import SNAPSHOT, SNAPSHOT_CRDS

LIE = 9_000_000_001
VERSIONS = [{"height": 0, "image": "gaia:v1"}, {"height": 200, "image": "gaia:v2"}]

HEIGHTS = st.integers(1, 2**62)


@pytest.mark.criterion("H-C1")
@given(
    honest=st.lists(st.integers(1000, 1000 + STEP), min_size=3, max_size=6),
    lie=HEIGHTS,
    before=HEIGHTS,
)
def test_h_c1_one_liar_raises_no_height_beyond_the_others(
    honest: list[int], lie: int, before: int
) -> None:
    polled = {f"hub-{number}": height for number, height in enumerate(honest)} | {"liar": lie}
    found = believed(polled, {}, {"liar": before})
    assert {name: found.heights[name] for name in polled if name != "liar"} == {
        name: height for name, height in polled.items() if name != "liar"
    }, "the others are believed"
    assert found.heights.get("liar", 0) <= max(honest) + STEP


@pytest.mark.criterion("H-C1")
@given(known=HEIGHTS, height=HEIGHTS, earlier=st.none() | HEIGHTS)
def test_h_c1_a_node_alone_steps_or_reports_it_twice(
    known: int, height: int, earlier: int | None
) -> None:
    before = {} if earlier is None else {"hub-0": earlier}
    found = believed({"hub-0": height}, {"hub-0": known}, before)
    near = earlier is not None and abs(height - earlier) <= SPAN
    assert ("hub-0" in found.heights) is (height <= known + STEP or near)
    assert found.unconfirmed is ("hub-0" not in found.heights)
    assert found.lowered == {}


@pytest.mark.criterion("H-C1")
def test_h_c1_a_snapshot_carries_the_height_of_its_node() -> None:
    schedule = ScheduledVolumeSnapshot.model_validate(
        {
            "metadata": {"name": "nightly", "namespace": "a"},
            "spec": {
                "fullNodeRef": {"name": "hub"},
                "schedule": "@daily",
                "volumeSnapshotClassName": "standard",
            },
        }
    )
    made = build(schedule, Create("nightly-1", "pvc-hub-0", {}, 300)).manifest
    assert made["metadata"]["annotations"] == {"cosmos.ctrlruntime.dev/height": "300"}
    unknown = build(schedule, Create("nightly-1", "pvc-hub-0")).manifest
    assert "annotations" not in unknown["metadata"]


@pytest.mark.criterion("H-C1")
def test_h_c1_what_was_recorded_too_high_goes_down() -> None:
    polled = {"hub-0": 100, "hub-1": 101, "hub-2": 99}
    found = believed(polled, {"hub-0": LIE, "hub-1": 90, "hub-2": 90}, {})
    assert found.lowered == {"hub-0": 100}


@pytest.mark.criterion("H-C1")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
async def test_h_c1_a_lie_changes_no_version(harness: NodeSetHarness, place: Place) -> None:
    versions = [{"height": 0, "image": "gaia:v1"}, {"height": 5_000_000, "image": "gaia:v2"}]
    await place.apply(place.node_set(chain={"versions": versions}))
    await place.settled()
    before = await place.uids()
    heights = dict((await place.settled()).status.height)
    place.node(1).height = LIE
    await harness.comet.until_asked("hub-1", place.namespace, more=10)
    note = {"rpcTemplate": {"metadata": {"annotations": {"a": "b"}}}}
    await place.edit(service=note)
    await place.settled()
    await harness.idle()
    assert await place.uids() == before
    place.node(1).height = None
    assert dict((await place.settled()).status.height)["hub-1"] == heights["hub-1"]


@pytest.mark.criterion("H-C1")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"annotations": {"cosmos.ctrlruntime.dev/height": "300"}}, 300),
        ({"labels": {"app.kubernetes.io/version": "v2"}}, 200),
    ],
    ids=["the height of the snapshot", "the version of the snapshot"],
)
async def test_h_c1_a_restored_disk_has_the_version_of_its_snapshot(
    harness: NodeSetHarness, place: Place, recorded: dict[str, Any], expected: int
) -> None:
    """Its node has never run here, and answers nothing that would show its height."""
    await harness.environment.install_crds(*SNAPSHOT_CRDS)
    labels = {"chain": "hub", **recorded.get("labels", {})}
    metadata = {"name": "first", "namespace": place.namespace, **recorded, "labels": labels}
    await place.client.create(
        {
            "apiVersion": SNAPSHOT.api_version,
            "kind": SNAPSHOT.kind,
            "metadata": metadata,
            "spec": {"source": {"persistentVolumeClaimName": "other"}},
        }
    )
    taken = {"readyToUse": True, "creationTime": "2026-05-01T00:00:00Z", "restoreSize": "3Gi"}
    await place.client.patch_status(SNAPSHOT, "first", {"status": taken}, namespace=place.namespace)
    place.node(0).unreachable = True
    auto = {"autoDataSource": {"volumeSnapshotSelector": {"chain": "hub"}}}
    await place.apply(
        place.node_set(
            replicas=1,
            chain={"versions": VERSIONS},
            volumeClaimTemplate=auto,
            deletionProtection=False,
        )
    )
    found = await place.until(lambda found: found.status.height.get("hub-0") == expected)
    await place.until_object(POD, "hub-0", lambda pod: pod is not None and _image(pod) == "gaia:v2")
    claim = await place.object(CLAIM, "pvc-hub-0")
    assert claim["metadata"]["annotations"]["cosmos.ctrlruntime.dev/height"] == str(expected)

    # A height that was recorded for the disk before goes down with it.
    await place.set_status(height={"hub-0": 900})
    await place.edit(instanceOverrides={"hub-0": {"disable": "All"}})
    await place.until_object(CLAIM, "pvc-hub-0", lambda claim: claim is None)
    await place.edit(instanceOverrides=None)
    found = await place.until(lambda found: found.status.height.get("hub-0") == expected)
    assert found.status.height == {"hub-0": expected}


@pytest.mark.criterion("H-C1")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
async def test_h_c1_a_disk_made_from_a_claim_has_its_height(place: Place) -> None:
    """A claim that a snapshot was restored to by hand, annotated with the height of its node."""
    noted = {"annotations": {"cosmos.ctrlruntime.dev/height": "300"}}
    await place.client.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "restored", "namespace": place.namespace, **noted},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "standard",
            },
        }
    )
    place.node(0).unreachable = True
    source = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "restored"}}
    await place.apply(
        place.node_set(replicas=1, chain={"versions": VERSIONS}, volumeClaimTemplate=source)
    )
    await place.until(lambda found: found.status.height.get("hub-0") == 300)
    await place.until_object(POD, "hub-0", lambda pod: pod is not None and _image(pod) == "gaia:v2")
    claim = await place.object(CLAIM, "pvc-hub-0")
    assert claim["metadata"]["annotations"]["cosmos.ctrlruntime.dev/height"] == "300"


def _image(pod: dict[str, Any]) -> str:
    return next(str(each["image"]) for each in pod["spec"]["containers"] if each["name"] == "node")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0, 99, False), (0, 100, True), (99, 100, True), (100, 100, False), (100, 250, True)],
)
def test_a_version_is_due_from_its_height_on(before: int, after: int, expected: bool) -> None:
    assert crosses(before, after, [100, 200]) is expected


def test_heights_within_a_version_count_at_once() -> None:
    said = Crossings(Clock(), 10).admit("set", {"hub-0": 50}, {"hub-0": 60, "hub-1": 7}, [100])
    assert said.heights == {"hub-0": 60, "hub-1": 7}
    assert (said.crossed, said.wait) == (False, 0.0)


@pytest.mark.criterion("COSMOS-A10-490")
def test_a_node_that_reaches_another_version_is_given_time_to_write_it_down() -> None:
    clock = Clock()
    crossings = Crossings(clock, 10)
    first = crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    assert (first.heights, first.crossed, first.wait) == ({}, False, 10.0)
    clock.now += 4
    assert crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100]).wait == 6.0
    clock.now += 6
    last = crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    assert (last.heights, last.crossed, last.wait) == ({"hub-0": 100}, True, 0.0)


def test_a_node_that_fell_silent_at_the_height_is_upgraded_nevertheless() -> None:
    clock = Clock()
    crossings = Crossings(clock, 10)
    crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    clock.now += 11
    assert crossings.admit("set", {"hub-0": 99}, {}, [100]).heights == {"hub-0": 100}


def test_what_is_recorded_is_waited_for_no_more() -> None:
    """The container beside the node, or an earlier pass, has told it."""
    crossings = Crossings(Clock(), 10)
    crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    said = crossings.admit("set", {"hub-0": 100}, {"hub-0": 100}, [100])
    assert (said.crossed, said.wait) == (False, 0.0)
    assert not crossings._seen, "nothing is kept"


def test_a_renewed_disk_begins_anew() -> None:
    clock = Clock()
    crossings = Crossings(clock, 10)
    crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    crossings.forget("set", ["hub-0"])
    clock.now += 11
    assert crossings.admit("set", {}, {}, [100]).heights == {}
