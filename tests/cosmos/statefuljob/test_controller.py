"""StatefulJobs on an API server, with the clock stepped by the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import JobOutcome, StatefulJob
from ctrlruntime.api import RESTMapping, find_condition
from ctrlruntime.envtest.eventually import eventually
from ctrlruntime.envtest.proxy.rules import Cut, Match, Rule
from ctrlruntime.json import Json
from ctrlruntime.resources import OWNER, OWNER_UID
from internal.cosmos.labels import COMPONENT, CREATED_BY
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from tests.cosmos.snapshots.harness import CLAIM, JOB, NAMESPACE, PATIENCE, SnapshotsHarness
from tests.support import waiting

RUN = "weekly-20260301120030"
NEXT = "weekly-20260301130030"


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SnapshotsHarness]:
    async with SnapshotsHarness.start(tmp_path) as made:
        yield made


async def running(harness: SnapshotsHarness, **fields: Json) -> StatefulJob:
    """A Job runs on a copy."""
    await harness.snapshot("copy", app="chain")
    await harness.stateful_job(**fields)
    return await harness.job("weekly", last_is(JobOutcome.RUNNING))


def last_is(outcome: JobOutcome, name: str = RUN) -> Callable[[StatefulJob], bool]:
    def so(found: StatefulJob) -> bool:
        history = found.status.job_history
        return bool(history) and (history[0].name, history[0].outcome) == (name, outcome)

    return so


def ready_is(reason: str, message: str) -> Callable[[StatefulJob], bool]:
    def so(found: StatefulJob) -> bool:
        ready = find_condition(found.status.conditions, "Ready")
        return ready is not None and ready.reason == reason and message in ready.message

    return so


async def end(harness: SnapshotsHarness, name: str, condition: str = "Complete") -> None:
    """What the Job controller says in the end."""
    said = {
        "type": condition,
        "status": "True",
        "message": "ten times in vain",
        "lastTransitionTime": harness.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    criterion = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[condition]
    status = {
        "startTime": said["lastTransitionTime"],
        "conditions": [{**said, "type": criterion}, said],
    }
    if condition == "Complete":
        status["completionTime"] = said["lastTransitionTime"]
    await harness.client.patch_status(JOB, name, {"status": status}, namespace=NAMESPACE)


@pytest.mark.criterion("COSMOS-A6-13")
async def test_from_snapshot_to_cleanup(harness: SnapshotsHarness) -> None:
    found = await running(harness)
    assert found.status.job_history[0].snapshot == "copy"
    claim = await harness.client.get(CLAIM, RUN, namespace=NAMESPACE)
    assert claim["spec"]["dataSource"]["name"] == "copy"
    assert claim["spec"]["resources"] == {"requests": {"storage": "5Gi"}}
    for kind in (CLAIM, JOB):
        owned = await harness.client.get(kind, RUN, namespace=NAMESPACE)
        assert owned["metadata"]["ownerReferences"][0]["uid"] == found.metadata.uid
    await end(harness, RUN)
    await harness.job("weekly", last_is(JobOutcome.SUCCEEDED))
    harness.clock.step(minutes=14)
    assert await harness.there(JOB, RUN)
    harness.clock.step(minutes=1)
    await harness.gone(JOB, RUN)
    await harness.gone(CLAIM, RUN)
    harness.clock.step(minutes=45)
    await harness.job("weekly", last_is(JobOutcome.RUNNING, NEXT))


@pytest.mark.criterion("U-1")
async def test_a_job_that_never_runs_is_reported_before_its_deadline(
    harness: SnapshotsHarness,
) -> None:
    await running(harness)
    harness.clock.step(minutes=10)
    await harness.job("weekly", ready_is("Waiting", "the cluster has made no Pod for it"))
    runs = {"status": {"active": 1, "ready": 1}}
    await harness.client.patch_status(JOB, RUN, runs, namespace=NAMESPACE)
    found = await harness.job("weekly", ready_is("Scheduled", ""))
    assert found.status.job_history[0].message == ""


async def test_a_job_that_fails_is_reported(harness: SnapshotsHarness) -> None:
    await running(harness)
    await end(harness, RUN, "Failed")
    found = await harness.job("weekly", last_is(JobOutcome.FAILED))
    assert found.status.job_history[0].message == "ten times in vain"


@pytest.mark.criterion("D5-8", "COSMOS-A6-14")
async def test_deleted_it_takes_job_and_claim_along(harness: SnapshotsHarness) -> None:
    await running(harness)
    await harness.client.delete(StatefulJob, "weekly", namespace=NAMESPACE)
    await harness.gone(JOB, RUN)
    await harness.gone(CLAIM, RUN)


@pytest.mark.criterion("COSMOS-A6-17")
async def test_without_a_snapshot_it_waits_and_reports_it(harness: SnapshotsHarness) -> None:
    await harness.stateful_job()
    found = await harness.job("weekly", lambda found: "no VolumeSnapshot" in found.status.status)
    assert found.status.job_history == []
    await harness.snapshot("other", app="another")
    await harness.snapshot("copy", app="chain")
    await harness.job("weekly", last_is(JobOutcome.RUNNING))


@pytest.mark.criterion("COSMOS-A6-17")
async def test_a_snapshot_of_unknown_size_is_not_used(harness: SnapshotsHarness) -> None:
    await harness.snapshot("copy", size=None, app="chain")
    await harness.stateful_job()
    await harness.job("weekly", lambda found: "restoreSize" in found.status.status)
    assert await harness.client.list(CLAIM, NAMESPACE) == []


@pytest.mark.criterion("COSMOS-A6-15")
async def test_one_that_runs_is_not_overtaken_and_one_that_vanishes_is_lost(
    harness: SnapshotsHarness,
) -> None:
    await running(harness)
    harness.clock.step(hours=5)
    await harness.edit(StatefulJob, "weekly", suspend=True)
    await harness.job("weekly", lambda found: found.status.next_at is None)
    assert [each["metadata"]["name"] for each in await harness.client.list(JOB, NAMESPACE)] == [RUN]
    await harness.client.delete(JOB, RUN, namespace=NAMESPACE, propagation="Background")
    found = await harness.job("weekly", last_is(JobOutcome.LOST))
    await harness.gone(CLAIM, RUN)
    assert found.status.status == "Suspended."
    await harness.edit(StatefulJob, "weekly", suspend=False)
    await harness.job("weekly", last_is(JobOutcome.RUNNING, NEXT))  # what was missed becomes one


@pytest.mark.criterion("COSMOS-A6-15")
@pytest.mark.parametrize("resource", ["persistentvolumeclaims", "jobs.batch"])
async def test_who_dies_in_between_goes_on_with_the_same_names(
    harness: SnapshotsHarness, resource: str
) -> None:
    await harness.snapshot("copy", app="chain")
    match = Match(user="manager", verb="write", resource=resource)
    harness.environment.proxy.add_rule(Rule(match=match, action=Cut(), times=None))
    await harness.stateful_job()
    await harness.job("weekly", last_is(JobOutcome.STARTING))
    if resource == "jobs.batch":
        await eventually(harness.client, CLAIM, RUN, namespace=NAMESPACE, timeout=PATIENCE)
    await harness.stop_manager()
    harness.environment.proxy.clear()
    await harness.client.delete(VOLUME_SNAPSHOT, "copy", namespace=NAMESPACE)
    await harness.snapshot("newer", app="chain")
    harness.clock.step(minutes=7)
    await harness.start_manager()
    found = await harness.job("weekly", last_is(JobOutcome.RUNNING))
    source = "newer" if resource == "persistentvolumeclaims" else "copy"
    assert found.status.job_history[0].snapshot == source
    for kind in (CLAIM, JOB):
        names = [each["metadata"]["name"] for each in await harness.client.list(kind, NAMESPACE)]
        assert names == [RUN]


@pytest.mark.criterion("H-C4")
async def test_h_c4_a_job_that_lost_its_labels_is_not_lost(harness: SnapshotsHarness) -> None:
    await running(harness)
    before = await harness.client.get(JOB, RUN, namespace=NAMESPACE)
    # The server would fill in those of the template if none were left.
    gone = {"metadata": {"labels": {CREATED_BY: None}}}
    await harness.client.patch(JOB, RUN, gone, namespace=NAMESPACE, field_manager="people")
    job = await eventually(
        harness.client,
        JOB,
        RUN,
        lambda found: bool(found["metadata"].get("labels", {}).get(CREATED_BY)),
        namespace=NAMESPACE,
    )
    assert job["metadata"]["uid"] == before["metadata"]["uid"]
    await end(harness, RUN)
    await harness.job("weekly", last_is(JobOutcome.SUCCEEDED))


@pytest.mark.criterion("H-R3")
@pytest.mark.parametrize("kind", [JOB, CLAIM], ids=["Job", "claim"])
async def test_marks_of_a_job_that_has_ended_come_back_and_nothing_is_deleted(
    harness: SnapshotsHarness, kind: RESTMapping
) -> None:
    await running(harness)
    await end(harness, RUN)
    await harness.job("weekly", last_is(JobOutcome.SUCCEEDED))
    before = await metadata(harness, kind)
    reference = {**before["ownerReferences"][0], "blockOwnerDeletion": False}
    for edit in (
        {"labels": {CREATED_BY: None}},
        {"labels": {CREATED_BY: "people", COMPONENT: "other"}},
        {"annotations": {OWNER: None}, "ownerReferences": [reference]},
        {"annotations": {OWNER_UID: "other"}},
        {"ownerReferences": None},
    ):
        patch = {"metadata": edit}
        await harness.client.patch(kind, RUN, patch, namespace=NAMESPACE, field_manager="people")
        await waiting.eventually(
            lambda: metadata(harness, kind), lambda found: found == before, timeout=PATIENCE
        )
    assert await harness.there(JOB, RUN)
    assert await harness.there(CLAIM, RUN)


async def metadata(harness: SnapshotsHarness, kind: RESTMapping) -> dict[str, Any]:
    """What is kept of an object's metadata, and that it is the same object."""
    found = await harness.client.get(kind, RUN, namespace=NAMESPACE)
    fields = ("uid", "labels", "annotations", "ownerReferences", "deletionTimestamp")
    return {name: found["metadata"].get(name) for name in fields}


@pytest.mark.criterion("H-C7")
async def test_h_c7_job_and_claim_have_the_labels_of_the_stateful_job(
    harness: SnapshotsHarness,
) -> None:
    await harness.snapshot("copy", app="chain")
    await harness.stateful_job()
    patch = {"metadata": {"labels": {"team": "chains", CREATED_BY: "x"}}}
    await harness.client.patch(
        StatefulJob, "weekly", patch, namespace=NAMESPACE, field_manager="people"
    )
    await harness.job("weekly", last_is(JobOutcome.RUNNING))
    harness.clock.step(days=8)
    await end(harness, RUN)
    later = await harness.job(
        "weekly",
        lambda found: (
            found.status.job_history[0].name != RUN
            and found.status.job_history[0].outcome is JobOutcome.RUNNING
        ),
    )
    for kind in (JOB, CLAIM):
        made = await harness.client.get(kind, later.status.job_history[0].name, namespace=NAMESPACE)
        labels = made["metadata"]["labels"]
        assert (labels["team"], labels[CREATED_BY]) == ("chains", "cosmos-manager")
