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
from tests.cloud.instance.e2e_harness import Theatre
from tests.cloud.instance.harness import NAMESPACE, instance, ready_of


@pytest.mark.criterion("SG-03")
async def test_from_apply_to_ready_within_the_budget(theatre: Theatre) -> None:
    theatre.elsewhere.outputs["terraform"] = {"ip": "10.0.0.1"}
    start = theatre.mark()
    await theatre.apply(instance())
    ready = await theatre.phase("Ready")
    assert theatre.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]
    assert ready_of(ready) == "True"
    await theatre.idle()
    writes = theatre.writes(start)
    own = [item for item in writes if item.resource.startswith("instances.")]
    own += [item for item in writes if item.resource.startswith("instances/")]
    assert len(own) <= 9, own
    assert len(writes) <= 40, writes

    at_rest = theatre.mark()
    await theatre.stop_manager()
    await theatre.start_manager()
    await theatre.idle()
    assert theatre.writes(at_rest) == []
    assert len(theatre.elsewhere.started) == 3


@pytest.mark.criterion("SG-05")
async def test_a_machine_type_runs_terraform_only(theatre: Theatre) -> None:
    await theatre.apply(instance())
    await theatre.phase("Ready")
    pool = {"blue": {"machineType": "n2-standard-16"}}
    await theatre.edit("Instance", {"infrastructure": {"gcp": {"zone": "z", "gke": pool}}})
    await theatre.phase("Ready")
    assert theatre.elsewhere.tasks() == ["terraform", "kubernetes", "invariants", "terraform"]


@pytest.mark.criterion("SG-72")
async def test_a_version_is_upgraded_to_before_the_workload_follows(theatre: Theatre) -> None:
    await theatre.apply(instance())
    await theatre.phase("Ready")
    theatre.elsewhere.held.add("upgrade")
    await theatre.edit("Instance", {"sourcegraphVersion": "5.2.0"})
    await theatre.upgrade("5.2.0")
    await theatre.until("Instance", lambda found: found.status.task.startswith("upgrade-"))
    assert (await theatre.read("InstanceKubernetes")).spec.version == "5.1.0"
    theatre.elsewhere.end("upgrade")
    ready = await theatre.phase("Ready")
    assert ready.status.version == "5.2.0"
    assert (await theatre.read("InstanceKubernetes")).spec.version == "5.2.0"
    assert theatre.elsewhere.tasks()[3:] == ["upgrade", "kubernetes", "invariants"]


@pytest.mark.criterion("H-R3")
async def test_marks_of_an_upgrade_that_has_ended_come_back(theatre: Theatre) -> None:
    await theatre.apply(instance())
    await theatre.phase("Ready")
    await theatre.edit("Instance", {"sourcegraphVersion": "5.2.0"})
    name = await theatre.upgrade("5.2.0")
    await theatre.until("Instance", lambda found: found.status.version == "5.2.0")
    await theatre.idle()
    upgrades = UpgradeInstanceTask.mapping()
    before = await marks_of(theatre, upgrades, name)
    for edit in (
        {"labels": {INSTANCE: None}},
        {"annotations": {OWNER: None, OWNER_UID: "another"}},
        {"annotations": {DELETION_PROTECTION: "another"}},
        {"ownerReferences": None},
    ):
        await edited(theatre, upgrades, name, edit)
        await eventually_equal(theatre, upgrades, name, before)
    assert theatre.elsewhere.tasks().count("upgrade") == 1


@pytest.mark.criterion("H-R3")
async def test_marks_of_the_secret_with_outputs_come_back(theatre: Theatre) -> None:
    theatre.elsewhere.secret_outputs["terraform"] = {"password": "hidden"}
    await theatre.apply(instance())
    await theatre.phase("Ready")
    await theatre.idle()
    name = "src-1-outputs"
    before = await marks_of(theatre, SECRET, name)
    assert before["labels"] == {INSTANCE: "src-1"}
    for edit in (
        {"labels": {INSTANCE: None}},
        {"labels": {INSTANCE: "another"}},
        {"annotations": {OWNER: None, OWNER_UID: "another"}},
        {"ownerReferences": None},
    ):
        await edited(theatre, SECRET, name, edit)
        await eventually_equal(theatre, SECRET, name, before)
    found = await theatre.client.get(SECRET, name, namespace=NAMESPACE)
    assert found["data"] == {"password": base64.b64encode(b"hidden").decode()}
    assert theatre.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]


async def edited(
    theatre: Theatre, kind: UntypedKindRef, name: str, metadata: dict[str, Any]
) -> None:
    """Make an edit as people do."""
    patch = {"metadata": metadata}
    await theatre.client.patch(kind, name, patch, namespace=NAMESPACE, field_manager="people")


async def marks_of(theatre: Theatre, kind: UntypedKindRef, name: str) -> dict[str, Any]:
    """What is kept of an object's metadata, and that it is the same object."""
    found: Any = await theatre.client.get(kind, name, namespace=NAMESPACE)
    fields = ("uid", "labels", "annotations", "ownerReferences", "deletionTimestamp")
    return {field: found["metadata"].get(field) for field in fields}


async def eventually_equal(
    theatre: Theatre, kind: UntypedKindRef, name: str, wanted: dict[str, Any]
) -> None:
    """Wait until an object has these marks."""

    async def is_equal() -> bool:
        return await marks_of(theatre, kind, name) == wanted

    await eventually_holds(is_equal, timeout=60.0)


@pytest.mark.criterion("SG-75")
async def test_teardown_goes_backwards(theatre: Theatre) -> None:
    await theatre.apply(instance())
    await theatre.phase("Ready")
    await theatre.delete()
    await theatre.gone("Instance")
    assert theatre.elsewhere.tasks()[3:] == ["-invariants", "-kubernetes", "-terraform"]
    assert theatre.elsewhere.runs == {}


async def test_a_bundle_of_config_maps_is_given_to_the_task(theatre: Theatre) -> None:
    """With its texts as they are; another text is another run."""
    bundle = {"configMapNames": ["web"]}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": NAMESPACE, "labels": {BUNDLE: "true"}},
        "data": {"web.yaml": "first"},
    }
    await theatre.client.create(manifest)
    await theatre.apply(instance(cluster={"bundle": bundle}))
    await theatre.phase("Ready")
    patch = {"data": {"web.yaml": "second"}}
    await theatre.client.patch(
        GroupVersionKind("", "v1", "ConfigMap"), "web", patch, namespace=NAMESPACE
    )

    await theatre.until(
        "InstanceKubernetes",
        lambda found: found.status.succeeded.inputs_version.startswith("2-"),
    )
    given = [
        item.input.config_maps
        for item in theatre.elsewhere.started
        if item.input.task == "kubernetes"
    ]
    assert given == [{"web": {"web.yaml": "first"}}, {"web": {"web.yaml": "second"}}]
    await theatre.phase("Ready")
    others = [item for item in theatre.elsewhere.started if item.input.task != "kubernetes"]
    assert all(item.input.config_maps == {} for item in others)


async def test_what_is_found_of_disks_starts_nothing_else(theatre: Theatre) -> None:
    """Looks come again and again, and find something else each time."""
    theatre.elsewhere.outputs["resize"] = {"fullest": "40", "size.data": "12Gi"}
    disks = {"maxSize": "100Gi", "usage": {"url": "http://127.0.0.1:9/usage"}}
    await theatre.apply(instance(cluster={"disks": disks}))
    await theatre.until(
        "InstanceKubernetesPVC", lambda found: found is not None and found.status.phase == "Ready"
    )
    ready = await theatre.phase("Ready")
    await theatre.idle()
    assert sorted(theatre.elsewhere.tasks()) == ["invariants", "kubernetes", "resize", "terraform"]
    assert ready.status.outputs == {}
    looked = await theatre.read("InstanceKubernetesPVC")
    assert isinstance(looked, InstanceKubernetesPVC)
    assert looked.status.outputs == theatre.elsewhere.outputs["resize"]
    assert pvc.period(looked) == SELDOM
    looked.spec.period = timedelta(minutes=5)
    assert pvc.period(looked) == 300
