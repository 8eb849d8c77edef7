"""`onImmutable`: what happens when the server refuses a change, since a field cannot be changed."""

from __future__ import annotations

from typing import Any

import pytest

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.client.client import PatchType
from ctrlruntime.gate import HOLDS_STATE
from ctrlruntime.json import Json
from ctrlruntime.resources import Desired
from internal.tenancy.objects.recreation import takes_along
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, mapping

JOB = mapping("batch/v1", "Job")
STATEFUL_SET = mapping("apps/v1", "StatefulSet")


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def job(image: str, **fields: object) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": image}], "restartPolicy": "Never"}
    return {
        "id": "job",
        "nameTemplate": "{{ .uid }}-job",
        "waitForReady": False,
        "spec": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {"suspend": True, "template": {"spec": pod}},
        },
        **fields,
    }


def stateful_set(size: str, **fields: object) -> dict[str, Any]:
    labels = {"app": "db"}
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }
    return {
        "id": "db",
        "nameTemplate": "{{ .uid }}-db",
        "waitForReady": False,
        "spec": {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "spec": {
                "replicas": 0,
                "serviceName": "db",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "db:1"}]},
                },
                "volumeClaimTemplates": [claim],
            },
        },
        **fields,
    }


async def made(harness: TenancyHarness, **lists: Json) -> Fleet:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(**lists)
    await fleet.ready("a-app")
    return fleet


@pytest.mark.criterion("IMMUTABLE")
@pytest.mark.asyncio(loop_scope="module")
async def test_by_default_the_refusal_is_reported_and_the_object_stays(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, jobs=[job("one:1")])
    before = await fleet.there(JOB, "a-job")
    await fleet.template(jobs=[job("two:1")])
    found = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    assert "immutable" in found.message
    assert (await fleet.get(JOB, "a-job"))["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.criterion("IMMUTABLE")
@pytest.mark.asyncio(loop_scope="module")
async def test_with_recreate_the_object_is_made_anew_and_then_left_alone(
    harness: TenancyHarness,
) -> None:
    recreate = {"onImmutable": "Recreate"}
    fleet = await made(
        harness, jobs=[job("one:1", **recreate)], statefulSets=[stateful_set("1Gi", **recreate)]
    )
    old = (await fleet.there(JOB, "a-job"))["metadata"]["uid"]
    mark = fleet.harness.environment.proxy.log.mark()
    await fleet.template(
        jobs=[job("two:1", **recreate)], statefulSets=[stateful_set("2Gi", **recreate)]
    )
    await fleet.there(
        JOB,
        "a-job",
        lambda seen: (
            seen["metadata"]["uid"] != old
            and seen["spec"]["template"]["spec"]["containers"][0]["image"] == "two:1"
        ),
    )
    await fleet.there(
        STATEFUL_SET,
        "a-db",
        lambda seen: (
            seen["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
            == "2Gi"
        ),
    )
    await fleet.ready("a-app")
    deleted = [text for text in fleet.writes(mark) if text.startswith("delete ")]
    assert sorted(deleted) == ["delete jobs.batch a-job", "delete statefulsets.apps a-db"]


@pytest.mark.criterion("IMMUTABLE")
@pytest.mark.asyncio(loop_scope="module")
async def test_content_that_a_new_object_could_not_have_deletes_nothing(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, jobs=[job("one:1", onImmutable="Recreate")])
    old = (await fleet.there(JOB, "a-job"))["metadata"]["uid"]
    broken = job("two:1", onImmutable="Recreate")
    broken["spec"]["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    mark = fleet.harness.environment.proxy.log.mark()
    await fleet.template(jobs=[broken])
    await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    assert (await fleet.get(JOB, "a-job"))["metadata"]["uid"] == old
    assert [text for text in fleet.writes(mark) if text.startswith("delete ")] == []


@pytest.mark.criterion("IMMUTABLE")
@pytest.mark.asyncio(loop_scope="module")
async def test_what_holds_data_or_is_retained_is_refused_by_its_template(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    claim = {
        "id": "claim",
        "nameTemplate": "{{ .uid }}-claim",
        "onImmutable": "Recreate",
        "spec": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    }
    kept = job("one:1", onImmutable="Recreate", deletionPolicy="Retain")
    await fleet.template(persistentVolumeClaims=[claim], jobs=[kept])
    found = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    assert "claim: onImmutable: a PersistentVolumeClaim is not recreated" in found.message
    assert "job: onImmutable: Recreate deletes the object" in found.message


@pytest.mark.criterion("G-T7")
@pytest.mark.asyncio(loop_scope="module")
async def test_g_t7_a_stateful_set_whose_claims_would_go_along_is_not_recreated(
    harness: TenancyHarness,
) -> None:
    recreate = {"onImmutable": "Recreate"}
    fleet = await made(harness, statefulSets=[stateful_set("1Gi", **recreate)])
    before = await fleet.there(STATEFUL_SET, "a-db")
    delete = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    await harness.client.patch(
        STATEFUL_SET, "a-db", {"spec": delete}, namespace=fleet.namespace, type=PatchType.MERGE
    )
    changed = stateful_set("1Gi", **recreate)
    changed["spec"]["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    changed["spec"]["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    since = harness.mark()
    await fleet.template(statefulSets=[changed])
    found = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    assert "PersistentVolumeClaims would go along" in found.message
    await harness.idle()
    assert (await fleet.get(STATEFUL_SET, "a-db"))["metadata"]["uid"] == before["metadata"]["uid"]
    assert [each for each in fleet.writes(since) if each.startswith("delete")] == []
    changed["spec"]["spec"] |= delete
    await fleet.template(statefulSets=[changed])
    await fleet.until(
        TenantTemplate, "app", "Valid", "False", message="PersistentVolumeClaims would go along"
    )


@pytest.mark.criterion("G-T7")
@pytest.mark.parametrize("annotated", ["before", "after"])
@pytest.mark.asyncio(loop_scope="module")
async def test_g_t7_an_object_with_the_annotation_of_state_is_not_recreated(
    harness: TenancyHarness, annotated: str
) -> None:
    """Whether the live object has it or the new content."""
    holding: dict[str, Any] = {"annotationsTemplate": {HOLDS_STATE: "true"}}
    first, then = (holding, {}) if annotated == "before" else ({}, holding)
    fleet = await made(harness, jobs=[job("one:1", onImmutable="Recreate", **first)])
    before = (await fleet.there(JOB, "a-job"))["metadata"]["uid"]
    since = harness.mark()
    await fleet.template(jobs=[job("two:1", onImmutable="Recreate", **then)])
    found = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    assert f"the annotation {HOLDS_STATE} is not recreated" in found.message
    await harness.idle()
    assert (await fleet.get(JOB, "a-job"))["metadata"]["uid"] == before
    assert [each for each in fleet.writes(since) if each.startswith("delete")] == []


@pytest.mark.criterion("G-T7")
@pytest.mark.parametrize("annotations", [{}, {"annotations": None}], ids=["none", "empty"])
def test_g_t7_content_without_annotations_is_recreated(annotations: dict[str, None]) -> None:
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", **annotations}}
    entry = EntryDecoder(JOB.gvk).decode_manifest(manifest)
    assert takes_along(Desired(mapping=JOB, manifest=manifest), entry) == ""
