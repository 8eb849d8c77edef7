"""When Jobs are due, and what is noted of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apis.cosmos import JobOutcome, JobRecord, StatefulJob, StatefulJobSpec, StatefulJobStatus
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.schedule import BadSchedule
from internal.cosmos.datasource import CLAIM, from_snapshot
from internal.cosmos.statefuljob.history import KEPT, SLOW, Timing, begin, observe, opened, timing
from internal.cosmos.statefuljob.job_builder import JOB, build_claim, build_job, run_name
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def spec(**fields: object) -> StatefulJobSpec:
    return StatefulJobSpec.model_validate(
        {
            "selector": {"app": "chain"},
            "podTemplate": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}},
            "volumeClaimTemplate": {"storageClassName": "standard"},
            **fields,
        }
    )


def record(at: datetime = NOW, outcome: JobOutcome = JobOutcome.RUNNING) -> JobRecord:
    return JobRecord(name="weekly-1", scheduled_at=at, started_at=at, outcome=outcome)


def status(*records: JobRecord) -> StatefulJobStatus:
    return StatefulJobStatus(created_at=NOW, job_history=list(records))


def job(*conditions: dict[str, str], suspend: bool = False, **counts: int) -> Entry:
    status = {"conditions": list(conditions), **counts}
    manifest = {"metadata": {"name": "weekly-1"}, "spec": {"suspend": suspend}, "status": status}
    return EntryDecoder(JOB.gvk).decode_manifest(manifest)


def claim(phase: str) -> Entry:
    manifest = {
        "apiVersion": CLAIM.gvk.api_version,
        "kind": CLAIM.gvk.kind,
        "metadata": {"name": "weekly-1"},
        "status": {"phase": phase},
    }
    return EntryDecoder(CLAIM.gvk).decode_manifest(manifest)


@pytest.mark.parametrize(
    ("fields", "history", "after", "expected"),
    [
        ({"interval": "1h"}, [], timedelta(0), Timing(NOW, NOW)),
        ({"interval": "1h"}, [record()], HOUR / 2, Timing(None, NOW + HOUR)),
        ({"interval": "1h"}, [record()], 5 * HOUR, Timing(NOW + HOUR, NOW + HOUR)),
        ({}, [record()], 23 * HOUR, Timing(None, NOW + 24 * HOUR)),
        ({"schedule": "@hourly"}, [], timedelta(0), Timing(None, NOW + HOUR)),
        ({"schedule": "@hourly"}, [], 5.5 * HOUR, Timing(NOW + 5 * HOUR, NOW + 5 * HOUR)),
        (
            {"schedule": "@hourly"},
            [record(NOW + 5 * HOUR)],
            5.5 * HOUR,
            Timing(None, NOW + 6 * HOUR),
        ),
    ],
)
def test_when_it_is_due(
    fields: dict[str, Any], history: list[JobRecord], after: timedelta, expected: Timing
) -> None:
    assert timing(spec(**fields), status(*history), NOW + after) == expected


@pytest.mark.parametrize("fields", [{"interval": "0s"}, {"interval": "-1h"}, {"schedule": "x"}])
def test_what_cannot_be_kept_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadSchedule):
        timing(spec(**fields), status(), NOW)


def test_a_job_is_followed_to_its_end() -> None:
    found = record(outcome=JobOutcome.STARTING)
    observe(found, None, NOW)
    assert found.outcome.value == "Starting"  # it is to be made
    observe(found, job(), NOW)
    assert found.outcome.value == "Running"
    end = {"type": "Failed", "status": "True", "message": "no space", "reason": "Backoff"}
    observe(found, job({**end, "lastTransitionTime": "2026-03-01T12:30:00Z"}), NOW + HOUR)
    assert (found.outcome, found.message) == (JobOutcome.FAILED, "no space")
    assert found.finished_at == NOW + HOUR / 2
    observe(found, None, NOW + 2 * HOUR)
    assert found.outcome is JobOutcome.FAILED


@pytest.mark.criterion("U-1")
@pytest.mark.parametrize(
    ("found", "disk", "expected"),
    [
        (job(active=1, ready=1), "Bound", ""),
        (job(succeeded=1), "Bound", ""),
        (job(), "Bound", "the cluster has made no Pod for it"),
        (job(suspend=True), "Bound", "the job is suspended"),
        (job(active=1, ready=0), "Bound", "its Pod is not ready"),
        (job(active=1, ready=0), "Pending", "the claim is not bound"),
        (job(active=1, ready=0), "Lost", "its volume is lost"),
        (job(failed=2), "Bound", "2 of its Pods failed"),
    ],
)
def test_a_job_that_was_begun_and_does_not_run_is_a_trouble_after_a_while(
    found: Entry, disk: str, expected: str
) -> None:
    seen = record(outcome=JobOutcome.STARTING)
    for passed, message in ((SLOW / 2, ""), (SLOW, expected)):
        observe(seen, found, NOW + passed, claim(disk))
        assert (seen.outcome, seen.message) == (JobOutcome.RUNNING, message)
    observe(seen, job({"type": "Complete", "status": "True"}), NOW + HOUR, claim(disk))
    assert (seen.outcome, seen.message) == (JobOutcome.SUCCEEDED, "")


def test_a_job_that_goes_before_its_end_is_seen_is_lost() -> None:
    found = record()
    observe(found, None, NOW)
    assert (found.outcome, found.finished_at) == (JobOutcome.LOST, NOW)


@pytest.mark.criterion("COSMOS-A6-16")
def test_five_are_remembered_newest_first() -> None:
    found = status()
    for number in range(8):
        begin(found, record(NOW + number * HOUR, JobOutcome.SUCCEEDED))
    assert len(found.job_history) == KEPT
    assert found.job_history[0].scheduled_at == NOW + 7 * HOUR
    assert opened(found) is None


def test_names_are_reported_by_their_time_and_fit_into_a_label() -> None:
    assert run_name("weekly", NOW) == "weekly-20260301120000"
    assert len(run_name("a" * 200, NOW)) <= 63
    assert run_name("a" * 200, NOW) != run_name(f"{'a' * 100}b{'a' * 99}", NOW)


def snapshot(**fields: object) -> Entry:
    manifest = {"metadata": {"name": "copy"}, "status": {"readyToUse": True, **fields}}
    return EntryDecoder(VOLUME_SNAPSHOT.gvk).decode_manifest(manifest)


def test_the_disk_is_added_to_the_pod_and_defaults_are_filled_in() -> None:
    named = StatefulJob.model_validate(
        {"metadata": {"name": "weekly", "namespace": "shop"}, "spec": spec()}
    )
    named.spec.pod_template.spec["volumes"] = [{"name": "snapshot", "emptyDir": {}}, {"name": "x"}]
    found = build_job(named, record()).manifest["spec"]
    assert (found["activeDeadlineSeconds"], found["backoffLimit"]) == (86400, 5)
    assert found["ttlSecondsAfterFinished"] == 900
    pod = found["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["volumes"] == [
        {"name": "x"},
        {"name": "snapshot", "persistentVolumeClaim": {"claimName": "weekly-1"}},
    ]
    claim = build_claim(named, record(), from_snapshot(snapshot(restoreSize="5Gi"))).manifest[
        "spec"
    ]
    assert claim["resources"] == {"requests": {"storage": "5Gi"}}
    assert claim["accessModes"] == ["ReadWriteOnce"]
    with pytest.raises(ValueError, match="restoreSize"):
        build_claim(named, record(), from_snapshot(snapshot()))
