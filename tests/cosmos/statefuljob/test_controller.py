"""StatefulJobs on an API server, with the clock stepped by the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import JobOutcome, StatefulJob
from ctrlruntime.api import RESTMapping
from ctrlruntime.envtest.eventually import eventually
from ctrlruntime.envtest.proxy.rules import Cut, Match, Rule
from ctrlruntime.json import Json
from ctrlruntime.resources import OWNER, OWNER_UID
from internal.cosmos.labels import COMPONENT, CREATED_BY
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from tests.cosmos.snapshots.harness import CLAIM, JOB, NAMESPACE, PATIENCE, Stand
from tests.support import waiting

RUN = "weekly-20260301120030"
NEXT = "weekly-20260301130030"


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with Stand.start(tmp_path) as made:
        yield made


async def running(stand: Stand, **fields: Json) -> StatefulJob:
    """A Job runs on a copy."""
    await stand.snapshot("copy", app="chain")
    await stand.stateful_job(**fields)
    return await stand.job("weekly", last_is(JobOutcome.RUNNING))


def last_is(outcome: JobOutcome, name: str = RUN) -> Callable[[StatefulJob], bool]:
    def so(found: StatefulJob) -> bool:
        history = found.status.job_history
        return bool(history) and (history[0].name, history[0].outcome) == (name, outcome)

    return so


async def end(stand: Stand, name: str, condition: str = "Complete") -> None:
    """What the Job controller says in the end."""
    said = {
        "type": condition,
        "status": "True",
        "message": "ten times in vain",
        "lastTransitionTime": stand.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    criterion = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[condition]
    status = {
        "startTime": said["lastTransitionTime"],
        "conditions": [{**said, "type": criterion}, said],
    }
    if condition == "Complete":
        status["completionTime"] = said["lastTransitionTime"]
    await stand.client.patch_status(JOB, name, {"status": status}, namespace=NAMESPACE)


@pytest.mark.criterion("COSMOS-A6-13")
async def test_from_snapshot_to_cleanup(stand: Stand) -> None:
    found = await running(stand)
    assert found.status.job_history[0].snapshot == "copy"
    claim = await stand.client.get(CLAIM, RUN, namespace=NAMESPACE)
    assert claim["spec"]["dataSource"]["name"] == "copy"
    assert claim["spec"]["resources"] == {"requests": {"storage": "5Gi"}}
    for kind in (CLAIM, JOB):
        owned = await stand.client.get(kind, RUN, namespace=NAMESPACE)
        assert owned["metadata"]["ownerReferences"][0]["uid"] == found.metadata.uid
    await end(stand, RUN)
    await stand.job("weekly", last_is(JobOutcome.SUCCEEDED))
    stand.clock.step(minutes=14)
    assert await stand.there(JOB, RUN)
    stand.clock.step(minutes=1)
    await stand.gone(JOB, RUN)
    await stand.gone(CLAIM, RUN)
    stand.clock.step(minutes=45)
    await stand.job("weekly", last_is(JobOutcome.RUNNING, NEXT))


async def test_a_job_that_fails_is_told(stand: Stand) -> None:
    await running(stand)
    await end(stand, RUN, "Failed")
    found = await stand.job("weekly", last_is(JobOutcome.FAILED))
    assert found.status.job_history[0].message == "ten times in vain"


@pytest.mark.criterion("D5-8", "COSMOS-A6-14")
async def test_deleted_it_takes_job_and_claim_along(stand: Stand) -> None:
    await running(stand)
    await stand.client.delete(StatefulJob, "weekly", namespace=NAMESPACE)
    await stand.gone(JOB, RUN)
    await stand.gone(CLAIM, RUN)


@pytest.mark.criterion("COSMOS-A6-17")
async def test_without_a_snapshot_it_waits_and_says_so(stand: Stand) -> None:
    await stand.stateful_job()
    found = await stand.job("weekly", lambda found: "no VolumeSnapshot" in found.status.status)
    assert found.status.job_history == []
    await stand.snapshot("other", app="another")
    await stand.snapshot("copy", app="chain")
    await stand.job("weekly", last_is(JobOutcome.RUNNING))


@pytest.mark.criterion("COSMOS-A6-17")
async def test_a_snapshot_of_unknown_size_is_not_used(stand: Stand) -> None:
    await stand.snapshot("copy", size=None, app="chain")
    await stand.stateful_job()
    await stand.job("weekly", lambda found: "restoreSize" in found.status.status)
    assert await stand.client.list(CLAIM, NAMESPACE) == []


@pytest.mark.criterion("COSMOS-A6-15")
async def test_one_that_runs_is_not_overtaken_and_one_that_vanishes_is_lost(stand: Stand) -> None:
    await running(stand)
    stand.clock.step(hours=5)
    await stand.edit(StatefulJob, "weekly", suspend=True)
    await stand.job("weekly", lambda found: found.status.next_at is None)
    assert [each["metadata"]["name"] for each in await stand.client.list(JOB, NAMESPACE)] == [RUN]
    await stand.client.delete(JOB, RUN, namespace=NAMESPACE, propagation="Background")
    found = await stand.job("weekly", last_is(JobOutcome.LOST))
    await stand.gone(CLAIM, RUN)
    assert found.status.status == "Suspended."
    await stand.edit(StatefulJob, "weekly", suspend=False)
    await stand.job("weekly", last_is(JobOutcome.RUNNING, NEXT))  # what was missed becomes one


@pytest.mark.criterion("COSMOS-A6-15")
@pytest.mark.parametrize("resource", ["persistentvolumeclaims", "jobs.batch"])
async def test_who_dies_in_between_goes_on_with_the_same_names(stand: Stand, resource: str) -> None:
    await stand.snapshot("copy", app="chain")
    match = Match(user="manager", verb="write", resource=resource)
    stand.environment.proxy.add_rule(Rule(match=match, action=Cut(), times=None))
    await stand.stateful_job()
    await stand.job("weekly", last_is(JobOutcome.STARTING))
    if resource == "jobs.batch":
        await eventually(stand.client, CLAIM, RUN, namespace=NAMESPACE, timeout=PATIENCE)
    await stand.stop_manager()
    stand.environment.proxy.clear()
    await stand.client.delete(VOLUME_SNAPSHOT, "copy", namespace=NAMESPACE)
    await stand.snapshot("newer", app="chain")
    stand.clock.step(minutes=7)
    await stand.start_manager()
    found = await stand.job("weekly", last_is(JobOutcome.RUNNING))
    source = "newer" if resource == "persistentvolumeclaims" else "copy"
    assert found.status.job_history[0].snapshot == source
    for kind in (CLAIM, JOB):
        names = [each["metadata"]["name"] for each in await stand.client.list(kind, NAMESPACE)]
        assert names == [RUN]


@pytest.mark.criterion("H-C4")
async def test_h_c4_a_job_that_lost_its_labels_is_not_lost(stand: Stand) -> None:
    await running(stand)
    before = await stand.client.get(JOB, RUN, namespace=NAMESPACE)
    # The server would fill in those of the template if none were left.
    gone = {"metadata": {"labels": {CREATED_BY: None}}}
    await stand.client.patch(JOB, RUN, gone, namespace=NAMESPACE, field_manager="people")
    job = await eventually(
        stand.client,
        JOB,
        RUN,
        lambda found: bool(found["metadata"].get("labels", {}).get(CREATED_BY)),
        namespace=NAMESPACE,
    )
    assert job["metadata"]["uid"] == before["metadata"]["uid"]
    await end(stand, RUN)
    await stand.job("weekly", last_is(JobOutcome.SUCCEEDED))


@pytest.mark.criterion("H-R3")
@pytest.mark.parametrize("kind", [JOB, CLAIM], ids=["Job", "claim"])
async def test_marks_of_a_job_that_has_ended_come_back_and_nothing_is_deleted(
    stand: Stand, kind: RESTMapping
) -> None:
    await running(stand)
    await end(stand, RUN)
    await stand.job("weekly", last_is(JobOutcome.SUCCEEDED))
    before = await metadata(stand, kind)
    reference = {**before["ownerReferences"][0], "blockOwnerDeletion": False}
    for edit in (
        {"labels": {CREATED_BY: None}},
        {"labels": {CREATED_BY: "people", COMPONENT: "other"}},
        {"annotations": {OWNER: None}, "ownerReferences": [reference]},
        {"annotations": {OWNER_UID: "other"}},
        {"ownerReferences": None},
    ):
        patch = {"metadata": edit}
        await stand.client.patch(kind, RUN, patch, namespace=NAMESPACE, field_manager="people")
        await waiting.eventually(
            lambda: metadata(stand, kind), lambda found: found == before, timeout=PATIENCE
        )
    assert await stand.there(JOB, RUN)
    assert await stand.there(CLAIM, RUN)


async def metadata(stand: Stand, kind: RESTMapping) -> dict[str, Any]:
    """What is kept of an object's metadata, and that it is the same object."""
    found = await stand.client.get(kind, RUN, namespace=NAMESPACE)
    fields = ("uid", "labels", "annotations", "ownerReferences", "deletionTimestamp")
    return {name: found["metadata"].get(name) for name in fields}


@pytest.mark.criterion("H-C7")
async def test_h_c7_job_and_claim_have_the_labels_of_the_stateful_job(stand: Stand) -> None:
    await stand.snapshot("copy", app="chain")
    await stand.stateful_job()
    patch = {"metadata": {"labels": {"team": "chains", CREATED_BY: "x"}}}
    await stand.client.patch(
        StatefulJob, "weekly", patch, namespace=NAMESPACE, field_manager="people"
    )
    await stand.job("weekly", last_is(JobOutcome.RUNNING))
    stand.clock.step(days=8)
    await end(stand, RUN)
    later = await stand.job(
        "weekly",
        lambda found: (
            found.status.job_history[0].name != RUN
            and found.status.job_history[0].outcome is JobOutcome.RUNNING
        ),
    )
    for kind in (JOB, CLAIM):
        made = await stand.client.get(kind, later.status.job_history[0].name, namespace=NAMESPACE)
        labels = made["metadata"]["labels"]
        assert (labels["team"], labels[CREATED_BY]) == ("chains", "cosmos-manager")
