"""Regular snapshots and Jobs in the midst of a hand-over: each time is one copy, each hour is one Job, and the node comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from apis.cosmos import JobOutcome, SnapshotPhase
from ctrlruntime.sharding import slot_of
from tests.cosmos.servers.snapshotcrds import SNAPSHOT
from tests.cosmos.sharded.members import USERS, assert_in_turn, member, name_of, owners, writers
from tests.cosmos.snapshots.harness import JOB, NAMESPACE, SET, SnapshotsHarness
from tests.cosmos.snapshots.test_controller import FIRST, take_down
from tests.cosmos.statefuljob.test_controller import RUN, end, last_is, running
from tests.support.waiting import eventually

ONE, TWO, _ = USERS
pytestmark = pytest.mark.criterion("SH-28")


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[SnapshotsHarness]:
    if request.param == "embedded":
        started = SnapshotsHarness.start(tmp_path, members=USERS)
    else:
        server = request.getfixturevalue("real_server")
        started = SnapshotsHarness.on(server, tmp_path, members=USERS)
    async with started as made:
        yield made


async def test_a_snapshot_and_a_job_that_are_under_way_are_ended_by_another_member_once(
    harness: SnapshotsHarness,
) -> None:
    assert harness.csi is not None
    mark = harness.mark()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        await first.enter_async_context(member(harness, ONE, NAMESPACE))
        await running(harness)
        await take_down(harness)
        uid = (await harness.client.get(JOB, RUN, namespace=NAMESPACE))["metadata"]["uid"]
        await stack.enter_async_context(member(harness, TWO, NAMESPACE))
        await first.aclose()
        harness.csi.default.ready_after = 0
        harness.csi.tick()
        await end(harness, RUN)
        await harness.job("weekly", last_is(JobOutcome.SUCCEEDED))
        await eventually(harness.paused, lambda names: names == [])
        await harness.settle()
        found = await harness.phase("nightly", SnapshotPhase.WAITING_FOR_NEXT)
        assert found.status.last_snapshot is not None
        assert found.status.last_snapshot.name == FIRST
        made = await harness.client.list(SNAPSHOT, NAMESPACE)
        jobs = await harness.client.list(JOB, NAMESPACE)
        assert sorted(each["metadata"]["name"] for each in made) == sorted(["copy", FIRST])
        assert [each["metadata"]["uid"] for each in jobs] == [uid]
        wrote = writers(harness, mark)
        assert_in_turn(wrote)
        assert any(users == [ONE, TWO] for users in wrote.values())


async def test_a_schedule_is_its_sets_members_whatever_its_own_name(
    harness: SnapshotsHarness,
) -> None:
    owned = owners([ONE], [ONE, TWO])
    of_set = owned[slot_of(SET, namespace=NAMESPACE)]
    (other,) = {ONE, TWO} - {of_set}
    name = name_of(owned, other, NAMESPACE)
    async with member(harness, ONE, NAMESPACE), member(harness, TWO, NAMESPACE):
        mark = harness.mark()
        await harness.schedule(name)
        await harness.schedule(f"{name}-of-none", fullNodeRef={"name": name})
        found = writers(harness, mark)
        kind = "scheduledvolumesnapshots.cosmos.ctrlruntime.dev"
        by_name = {key[2]: users for key, users in found.items() if key[0].startswith(kind)}
        assert by_name == {name: [of_set], f"{name}-of-none": [other]}
