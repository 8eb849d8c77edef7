"""Instances with the real task driver, from apply to gone."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from apis.cloud import InstanceKubernetesPVC, UpgradeInstanceTask
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.resource import UntypedKindRef
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.resources import OWNER, OWNER_UID
from internal.cloud.labels import BUNDLE, DELETION_PROTECTION, INSTANCE
from internal.cloud.subresources import pvc
from internal.cloud.subresources.pvc import SELDOM
from internal.cloud.taskdriver.writes import SECRET
from internal.named_secrets import Purpose
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, instance, ready_of


@pytest.mark.criterion("SG-03")
async def test_from_apply_to_ready_within_the_budget(e2e_harness: E2EHarness) -> None:
    e2e_harness.elsewhere.outputs["terraform"] = {"ip": "10.0.0.1"}
    start = e2e_harness.mark()
    await e2e_harness.apply(instance())
    ready = await e2e_harness.phase("Ready")
    assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]
    assert ready_of(ready) == "True"
    await e2e_harness.idle()
    writes = e2e_harness.writes(start)
    own = [item for item in writes if item.resource.startswith("instances.")]
    own += [item for item in writes if item.resource.startswith("instances/")]
    assert len(own) <= 9, own
    assert len(writes) <= 40, writes

    at_rest = e2e_harness.mark()
    await e2e_harness.stop_manager()
    await e2e_harness.start_manager()
    await e2e_harness.idle()
    assert e2e_harness.writes(at_rest) == []
    assert len(e2e_harness.elsewhere.started) == 3


@pytest.mark.criterion("SG-05")
async def test_a_machine_type_runs_terraform_only(e2e_harness: E2EHarness) -> None:
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    pool = {"blue": {"machineType": "n2-standard-16"}}
    await e2e_harness.edit("Instance", {"infrastructure": {"gcp": {"zone": "z", "gke": pool}}})
    await e2e_harness.phase("Ready")
    assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants", "terraform"]


@pytest.mark.criterion("SG-72")
async def test_a_version_is_upgraded_to_before_the_workload_follows(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    e2e_harness.elsewhere.held.add("upgrade")
    await e2e_harness.edit("Instance", {"version": "5.2.0"})
    await e2e_harness.upgrade("5.2.0")
    await e2e_harness.until("Instance", lambda found: found.status.task.startswith("upgrade-"))
    assert (await e2e_harness.read("InstanceKubernetes")).spec.version == "5.1.0"
    e2e_harness.elsewhere.end("upgrade")
    ready = await e2e_harness.phase("Ready")
    assert ready.status.version == "5.2.0"
    assert (await e2e_harness.read("InstanceKubernetes")).spec.version == "5.2.0"
    assert e2e_harness.elsewhere.tasks()[3:] == ["upgrade", "kubernetes", "invariants"]


@pytest.mark.criterion("H-R3")
async def test_marks_of_an_upgrade_that_has_ended_come_back(e2e_harness: E2EHarness) -> None:
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    await e2e_harness.edit("Instance", {"version": "5.2.0"})
    name = await e2e_harness.upgrade("5.2.0")
    await e2e_harness.until("Instance", lambda found: found.status.version == "5.2.0")
    await e2e_harness.idle()
    upgrades = UpgradeInstanceTask.mapping()
    before = await marks_of(e2e_harness, upgrades, name)
    for edit in (
        {"labels": {INSTANCE: None}},
        {"annotations": {OWNER: None, OWNER_UID: "another"}},
        {"annotations": {DELETION_PROTECTION: "another"}},
        {"ownerReferences": None},
    ):
        await edited(e2e_harness, upgrades, name, edit)
        await eventually_equal(e2e_harness, upgrades, name, before)
    assert e2e_harness.elsewhere.tasks().count("upgrade") == 1


@pytest.mark.criterion("H-R3")
async def test_marks_of_the_secret_with_outputs_come_back(e2e_harness: E2EHarness) -> None:
    e2e_harness.elsewhere.secret_outputs["terraform"] = {"password": "hidden"}
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    await e2e_harness.idle()
    name = "src-1-outputs"
    before = await marks_of(e2e_harness, SECRET, name)
    assert before["labels"] == {INSTANCE: "src-1", Purpose.CLUSTER.value: "true"}
    for edit in (
        {"labels": {INSTANCE: None}},
        {"labels": {INSTANCE: "another"}},
        {"annotations": {OWNER: None, OWNER_UID: "another"}},
        {"ownerReferences": None},
    ):
        await edited(e2e_harness, SECRET, name, edit)
        await eventually_equal(e2e_harness, SECRET, name, before)
    found = await e2e_harness.client.get(SECRET, name, namespace=NAMESPACE)
    assert found["data"] == {"password": base64.b64encode(b"hidden").decode()}
    assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]


async def edited(
    e2e_harness: E2EHarness, kind: UntypedKindRef, name: str, metadata: dict[str, Any]
) -> None:
    """Make an edit as people do."""
    patch = {"metadata": metadata}
    await e2e_harness.client.patch(kind, name, patch, namespace=NAMESPACE, field_manager="people")


async def marks_of(e2e_harness: E2EHarness, kind: UntypedKindRef, name: str) -> dict[str, Any]:
    """What is kept of an object's metadata, and that it is the same object."""
    found: Any = await e2e_harness.client.get(kind, name, namespace=NAMESPACE)
    fields = ("uid", "labels", "annotations", "ownerReferences", "deletionTimestamp")
    return {field: found["metadata"].get(field) for field in fields}


async def eventually_equal(
    e2e_harness: E2EHarness, kind: UntypedKindRef, name: str, wanted: dict[str, Any]
) -> None:
    """Wait until an object has these marks."""

    async def is_equal() -> bool:
        return await marks_of(e2e_harness, kind, name) == wanted

    await eventually_holds(is_equal, timeout=60.0)


@pytest.mark.criterion("SG-75")
async def test_teardown_goes_backwards(e2e_harness: E2EHarness) -> None:
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    await e2e_harness.delete()
    await e2e_harness.gone("Instance")
    assert e2e_harness.elsewhere.tasks()[3:] == ["-invariants", "-kubernetes", "-terraform"]
    assert e2e_harness.elsewhere.runs == {}


async def test_a_bundle_of_config_maps_is_given_to_the_task(e2e_harness: E2EHarness) -> None:
    """With its texts as they are; another text is another run."""
    bundle = {"configMapNames": ["web"]}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": NAMESPACE, "labels": {BUNDLE: "true"}},
        "data": {"web.yaml": "first"},
    }
    await e2e_harness.client.create(manifest)
    await e2e_harness.apply(instance(cluster={"bundle": bundle}))
    await e2e_harness.phase("Ready")
    patch = {"data": {"web.yaml": "second"}}
    await e2e_harness.client.patch(
        GroupVersionKind("", "v1", "ConfigMap"), "web", patch, namespace=NAMESPACE
    )

    await e2e_harness.until(
        "InstanceKubernetes",
        lambda found: found.status.succeeded.inputs_version.startswith("2-"),
    )
    given = [
        item.input.config_maps
        for item in e2e_harness.elsewhere.started
        if item.input.task == "kubernetes"
    ]
    assert given == [{"web": {"web.yaml": "first"}}, {"web": {"web.yaml": "second"}}]
    await e2e_harness.phase("Ready")
    others = [item for item in e2e_harness.elsewhere.started if item.input.task != "kubernetes"]
    assert all(item.input.config_maps == {} for item in others)


async def test_what_is_found_of_disks_starts_nothing_else(e2e_harness: E2EHarness) -> None:
    """Looks come again and again, and find something else each time."""
    e2e_harness.elsewhere.outputs["resize"] = {"fullest": "40", "size.data": "12Gi"}
    disks = {"maxSize": "100Gi", "usage": {"url": "http://127.0.0.1:9/usage"}}
    await e2e_harness.apply(instance(cluster={"disks": disks}))
    await e2e_harness.until(
        "InstanceKubernetesPVC", lambda found: found is not None and found.status.phase == "Ready"
    )
    ready = await e2e_harness.phase("Ready")
    await e2e_harness.idle()
    assert sorted(e2e_harness.elsewhere.tasks()) == [
        "invariants",
        "kubernetes",
        "resize",
        "terraform",
    ]
    assert ready.status.outputs == {}
    looked = await e2e_harness.read("InstanceKubernetesPVC")
    assert isinstance(looked, InstanceKubernetesPVC)
    assert looked.status.outputs == e2e_harness.elsewhere.outputs["resize"]
    assert pvc.period(looked) == SELDOM
    looked.spec.period = timedelta(minutes=5)
    assert pvc.period(looked) == 300
