"""Copies on API servers: heights, failures, selectors (G-N3); cut copies, classes, retention (G-N4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot, SnapshotPhase, StatefulJob
from ctrlruntime.api import find_condition
from ctrlruntime.client.errors import Invalid
from ctrlruntime.envtest.eventually import eventually
from internal.cosmos.labels import HEIGHT
from tests.cosmos.servers.csi import NEVER
from tests.cosmos.servers.snapshotcrds import CLASS, SNAPSHOT, snapshot_class
from tests.cosmos.snapshots.harness import (
    EVENT,
    NAMESPACE,
    PATIENCE,
    SET,
    SnapshotsHarness,
    node_set,
)

Phase = SnapshotPhase
FIRST: Final = "nightly-202603011210"


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[SnapshotsHarness]:
    if request.param == "embedded":
        started = SnapshotsHarness.start(tmp_path)
    else:
        started = SnapshotsHarness.on(request.getfixturevalue("real_server"), tmp_path)
    async with started as made:
        yield made


async def heights(harness: SnapshotsHarness) -> None:
    status = {"status": {"height": {f"{SET}-{number}": 101 for number in range(3)}}}
    await harness.client.patch_status(CosmosFullNode, SET, status, namespace=NAMESPACE)


async def found(harness: SnapshotsHarness) -> ScheduledVolumeSnapshot:
    return await harness.client.get(ScheduledVolumeSnapshot, "nightly", namespace=NAMESPACE)


async def is_cut(harness: SnapshotsHarness) -> None:
    """Up to the moment that a node is stopped and its copy is cut, and not stored yet."""
    assert harness.csi is not None
    harness.csi.default.ready_after, harness.csi.default.cut_after = NEVER, 0
    await harness.schedule(schedule="10 12 * * *", deletePod=True)
    harness.clock.step(minutes=10)
    await harness.phase("nightly", Phase.WAITING_FOR_POD_DELETION)
    await harness.settle()
    await harness.restored()
    await harness.phase("nightly", Phase.WAITING_FOR_POD_RESTORATION)
    await harness.settle()
    await harness.phase("nightly", Phase.WAITING_FOR_SNAPSHOT_CREATION)


@pytest.mark.criterion("G-N3")
@pytest.mark.parametrize("stops", [False, True], ids=["hot", "cold"])
async def test_a_copy_carries_the_height_of_its_node(
    harness: SnapshotsHarness, stops: bool
) -> None:
    await heights(harness)
    await harness.schedule(deletePod=stops)
    harness.clock.step(minutes=10)
    if stops:
        await harness.phase("nightly", Phase.WAITING_FOR_POD_DELETION)
        await harness.settle()
    made = await eventually(harness.client, SNAPSHOT, FIRST, namespace=NAMESPACE, timeout=PATIENCE)
    assert made["metadata"]["annotations"][HEIGHT] == "101"


@pytest.mark.criterion("G-N3")
async def test_each_time_after_a_failed_copy_has_its_own(harness: SnapshotsHarness) -> None:
    assert harness.csi is not None
    harness.csi.default.error = "quota exceeded"
    await harness.schedule(schedule="0 * * * *", deadlines={"snapshotCreation": 600})
    for hour in (13, 14, 15):
        name = f"nightly-20260301{hour}00"
        harness.clock.step(hours=1)
        await eventually(harness.client, SNAPSHOT, name, namespace=NAMESPACE, timeout=PATIENCE)
        await harness.sees("nightly", lambda found: "quota" in found.status.status)
    last = (await found(harness)).status.last_snapshot
    assert last is not None
    assert last.name == "nightly-202603011500"
    failed = {str(each.get("note")) for each in await events(harness)}
    assert not [note for note in failed if "was deleted" in note]


async def events(harness: SnapshotsHarness) -> list[dict[str, Any]]:
    return list(await harness.client.list(EVENT, NAMESPACE))


@pytest.mark.criterion("G-N3")
async def test_a_selector_without_a_label_is_refused(harness: SnapshotsHarness) -> None:
    empty: tuple[dict[str, Any], ...] = (
        {},
        {"volumeSnapshotSelector": {}},
        {"matchInstance": False},
    )
    for auto in empty:
        manifest = node_set()
        manifest["metadata"]["name"] = "other"
        manifest["spec"]["volumeClaimTemplate"]["autoDataSource"] = auto
        with pytest.raises(Invalid, match="an empty selector selects nothing"):
            await harness.client.create(manifest)
        override = {"hub-1": {"volumeClaimTemplate": manifest["spec"]["volumeClaimTemplate"]}}
        patch = {"spec": {"instanceOverrides": override}}
        with pytest.raises(Invalid, match="an empty selector selects nothing"):
            await harness.client.patch(CosmosFullNode, SET, patch, namespace=NAMESPACE)
    with pytest.raises(Invalid, match="an empty selector selects nothing"):
        await harness.stateful_job(selector={})
    with pytest.raises(Invalid, match="an empty selector selects nothing"):
        await harness.client.patch(
            StatefulJob,
            await job(harness),
            {"spec": {"selector": {"app": None}}},
            namespace=NAMESPACE,
        )


async def job(harness: SnapshotsHarness) -> str:
    await harness.stateful_job("weekly", selector={"app": "chain"})
    return "weekly"


@pytest.mark.criterion("G-N4")
async def test_a_node_is_back_once_its_copy_is_cut_and_the_copy_outlives_deadlines(
    harness: SnapshotsHarness,
) -> None:
    assert harness.csi is not None
    await is_cut(harness)
    assert await harness.paused() == []
    harness.clock.step(minutes=75)
    seen = await harness.phase("nightly", Phase.WAITING_FOR_NEXT)
    assert seen.status.last_snapshot is not None
    assert "in time" in seen.status.last_snapshot.failed
    assert await harness.snapshots() == [FIRST], "it is cut, and goes on being stored"
    harness.csi.default.ready_after = 0
    harness.csi.tick()
    seen = await harness.sees(
        "nightly",
        lambda seen: seen.status.last_snapshot is not None and not seen.status.last_snapshot.failed,
    )
    ready = find_condition(seen.status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "True"
    assert await harness.snapshots() == [FIRST]


@pytest.mark.criterion("G-N4")
async def test_a_class_that_is_missing_takes_no_node_down(harness: SnapshotsHarness) -> None:
    before = harness.environment.proxy.log.mark()
    await harness.schedule(deletePod=True, volumeSnapshotClassName="later")
    harness.clock.step(minutes=10)
    seen = await harness.sees("nightly", lambda seen: "does not exist" in seen.status.status)
    assert seen.status.phase is Phase.FINDING_CANDIDATE
    assert "VolumeSnapshotClass later" in seen.status.status
    assert not [
        each
        for each in harness.environment.proxy.log.entries(before)
        if each.user == "manager"
        and each.resource.startswith("cosmosfullnodes")
        and each.verb == "patch"
    ]
    await harness.client.create(snapshot_class("later"))
    harness.clock.step(minutes=1)
    await harness.phase("nightly", Phase.WAITING_FOR_POD_DELETION)
    await harness.client.delete(CLASS, "later")


@pytest.mark.criterion("G-N4")
async def test_ready_shows_a_failure_until_a_copy_is_ready(harness: SnapshotsHarness) -> None:
    assert harness.csi is not None
    harness.csi.of_snapshot(FIRST).error = "quota exceeded"
    harness.csi.default.ready_after = NEVER
    await harness.schedule(deadlines={"snapshotCreation": 60})
    harness.clock.step(minutes=10)
    await harness.sees("nightly", lambda seen: "quota" in seen.status.status)
    harness.clock.step(minutes=10)
    seen = await harness.sees(
        "nightly",
        lambda seen: (
            seen.status.phase is Phase.WAITING_FOR_SNAPSHOT_CREATION
            and seen.status.last_snapshot is not None
            and seen.status.last_snapshot.name != FIRST
        ),
    )
    ready = find_condition(seen.status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "SnapshotFailed")
    assert "quota exceeded" in ready.message
    harness.csi.default.ready_after = 0
    harness.csi.tick()
    await harness.sees(
        "nightly",
        lambda seen: any(
            each.type == "Ready" and each.status == "True" for each in seen.status.conditions
        ),
    )


@pytest.mark.criterion("G-N4")
async def test_retention_leaves_the_copies_of_another_set(harness: SnapshotsHarness) -> None:
    await harness.schedule(limit=2)
    for name in (FIRST, "nightly-202603011220"):
        harness.clock.step(minutes=10)
        await harness.sees("nightly", partial(is_ready, name=name))
    other = {"fullNodeRef": {"name": "other"}, "limit": 1}
    await harness.edit(ScheduledVolumeSnapshot, "nightly", **other)
    await harness.sees("nightly", lambda seen: seen.status.observed_generation == 2)
    await harness.idle()
    assert await harness.snapshots() == [FIRST, "nightly-202603011220"]
    await harness.edit(ScheduledVolumeSnapshot, "nightly", fullNodeRef={"name": SET})
    await harness.gone(SNAPSHOT, FIRST)


@pytest.mark.criterion("G-N4")
async def test_retention_takes_no_copies_that_a_person_made(
    harness: SnapshotsHarness,
) -> None:
    await harness.schedule(limit=1)
    harness.clock.step(minutes=10)
    await harness.sees("nightly", lambda seen: is_ready(seen, FIRST))
    made = await harness.client.get(SNAPSHOT, FIRST, namespace=NAMESPACE)
    metadata = made["metadata"]
    for name in ("before-upgrade", "archive"):
        kept = {key: metadata[key] for key in ("labels", "annotations", "namespace")}
        await harness.client.create({**made, "metadata": {**kept, "name": name}})
        ready = {"status": {"readyToUse": True}}
        await eventually(
            harness.client, SNAPSHOT, name, ready, namespace=NAMESPACE, timeout=PATIENCE
        )
    harness.clock.step(minutes=10)
    await harness.gone(SNAPSHOT, FIRST)
    assert await harness.snapshots() == ["archive", "before-upgrade", "nightly-202603011220"]


def is_ready(seen: ScheduledVolumeSnapshot, name: str) -> bool:
    last = seen.status.last_snapshot
    return last is not None and last.name == name and bool((last.status or {}).get("readyToUse"))
