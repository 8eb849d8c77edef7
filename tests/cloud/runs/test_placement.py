"""Jobs of runs whose objects are in another cluster: a label and the owner's key instead of an owner reference."""

from __future__ import annotations

from typing import Any

from ctrlruntime.resources import OWNER, OWNER_UID, RemotePlacement
from internal.cloud.runs.jobs import JobOptions
from internal.cloud.runs.jobs.manifest import edited_input, edited_metadata, input_of, job_of
from tests.cloud.runs.benches import owner_of, request_of

LABEL = "example.com/data-plane"
THERE = RemotePlacement(owner_cluster="east", labels={LABEL: "east"})
OPTIONS = JobOptions(image="manager:v1")
OWNED = owner_of("shop", "1234")
REQUEST = request_of(OWNED, {})


def job(**metadata: object) -> dict[str, Any]:
    """Make the Job as the server has it, with changed metadata."""
    made = dict(job_of(REQUEST, OPTIONS, THERE))
    return {**made, "metadata": {**made["metadata"], "uid": "5678", **metadata}}


def test_a_job_records_its_owner_by_key_and_has_no_owner_reference() -> None:
    metadata = job()["metadata"]
    assert "ownerReferences" not in metadata
    assert metadata["labels"][LABEL] == "east"
    assert metadata["annotations"][OWNER].endswith("/shop@east")
    assert metadata["annotations"][OWNER_UID] == "1234"
    template = job()["spec"]["template"]["metadata"]
    assert template["labels"][LABEL] == "east", "Pods are watched by it"
    assert OWNER not in template["annotations"], "Pods go with their Job"


def test_the_secret_of_a_run_has_the_label_and_belongs_to_the_job_on_its_server() -> None:
    secret = input_of(REQUEST, job(), "{}", "key", THERE)
    assert secret["metadata"]["labels"][LABEL] == "east"
    (reference,) = secret["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"]) == ("Job", "5678")


def test_a_job_as_it_was_made_is_not_written() -> None:
    assert edited_metadata(job(), OWNED, THERE) == {}


def test_records_and_labels_that_were_changed_by_hand_are_restored() -> None:
    edited = job(labels={LABEL: "west"}, annotations={OWNER: "someone"})
    found = edited_metadata(edited, OWNED, THERE)
    made = job()["metadata"]
    assert found["labels"] == made["labels"]
    assert found["annotations"] == made["annotations"]
    assert "ownerReferences" not in found
    secret = input_of(REQUEST, job(), "{}", "key", THERE)
    secret["metadata"]["labels"].pop(LABEL)
    assert edited_input(secret, job(), THERE) == {"labels": {LABEL: "east"}}


def test_without_a_placement_the_reference_is_restored() -> None:
    plain = dict(job_of(REQUEST, OPTIONS))
    assert LABEL not in plain["metadata"]["labels"]
    plain["metadata"].pop("ownerReferences")
    assert edited_metadata(plain, OWNED)["ownerReferences"][0]["uid"] == "1234"
