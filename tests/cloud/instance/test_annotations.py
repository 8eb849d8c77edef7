"""What people do to an instance: pause, break glass, upgrade, names, bundles, protection, leases."""

from __future__ import annotations

import time

import pytest

from apis.cloud import Instance
from ctrlruntime.api import find_condition
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance, ready_of


@pytest.mark.criterion("SG-70")
async def test_nothing_is_written_while_extracted_and_nothing_runs_again(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    await e2e_harness.annotate(control_plane_mode="false")
    await e2e_harness.idle()
    start = e2e_harness.mark()
    await e2e_harness.edit("Instance", {"managedSMTP": {"disabled": True}})
    await e2e_harness.edit("InstanceTerraform", {"tfcRunsMode": "vcs"})
    await e2e_harness.idle()
    assert e2e_harness.writes(start) == []
    await e2e_harness.edit("Instance", {"managedSMTP": {"disabled": False}})
    await e2e_harness.annotate(control_plane_mode=None)
    await e2e_harness.until("InstanceTerraform", lambda found: found.spec.tfc_runs_mode == "cli")
    await e2e_harness.phase("Ready")
    await e2e_harness.idle()
    assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]


async def test_paused_begins_nothing_new_and_awaits_what_runs(e2e_harness: E2EHarness) -> None:
    e2e_harness.elsewhere.held.add("terraform")
    await e2e_harness.apply(instance())
    await e2e_harness.until("Instance", lambda found: bool(found.status.task))
    await e2e_harness.annotate(paused="true")
    told = await e2e_harness.phase("Paused")
    assert "manager instance resume" in told.status.message
    e2e_harness.elsewhere.end("terraform")
    await e2e_harness.until("InstanceTerraform", lambda found: ready_of(found) == "True")
    await e2e_harness.idle()
    assert e2e_harness.elsewhere.tasks() == ["terraform"]
    assert await e2e_harness.get("InstanceKubernetes") is None
    await e2e_harness.annotate(paused=None)
    await e2e_harness.phase("Ready")


@pytest.mark.criterion("H-B11")
async def test_h_b11_the_annotation_of_the_library_pauses_the_subresources_too(
    e2e_harness: E2EHarness,
) -> None:
    e2e_harness.elsewhere.failing["terraform"] = "no quota"
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Failed")
    patch = {"metadata": {"annotations": {"ctrlruntime.dev/paused": "true"}}}
    await e2e_harness.client.patch(Instance, "src-1", patch, namespace=NAMESPACE)
    await e2e_harness.phase("Paused")
    paused = await e2e_harness.until(
        "InstanceTerraform", lambda found: found is not None and found.status.phase == "Paused"
    )
    assert "ctrlruntime.dev/paused of its instance" in paused.status.message


@pytest.mark.criterion("SG-76")
async def test_a_name_belongs_to_one_instance(harness: InstanceHarness) -> None:
    await harness.apply(instance("src-1", domain="a.example.com"))
    await harness.until("Instance", lambda found: found.status.domains == ["a.example.com"])
    await harness.apply(instance("src-2", domain="A.example.com."))
    refused = await harness.phase("Failed", "src-2")
    condition = find_condition(refused.status.conditions, "DomainConflict")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "DomainTaken")
    assert "default/src-1" in condition.message
    assert await harness.get("InstanceTerraform", "src-2") is None

    await harness.edit("Instance", {"domain": "b.example.com"})
    await harness.until("InstanceTerraform", lambda found: found.spec.domain == "b.example.com")
    await harness.idle()  # the name is free once the infrastructure has given it up, not sooner
    assert await harness.get("InstanceTerraform", "src-2") is None
    await harness.roll_out()
    await harness.there("InstanceTerraform", "src-2")
    freed = await harness.until(
        "Instance", lambda found: found.status.domains == ["a.example.com"], "src-2"
    )
    assert find_condition(freed.status.conditions, "DomainConflict") is None


@pytest.mark.criterion("SG-75")
async def test_protection_holds_a_deletion_back(harness: InstanceHarness) -> None:
    await harness.apply(instance(debug={}))
    await harness.there("InstanceTerraform")
    await harness.delete()
    held = await harness.phase("Deleting")
    assert "enableDeletionProtection" in held.status.message
    await harness.idle()
    assert (await harness.read("InstanceTerraform")).metadata.deletion_timestamp is None
    await harness.edit("Instance", {"debug": {"enableDeletionProtection": False}})
    await harness.until("InstanceTerraform", lambda f: f.metadata.deletion_timestamp is not None)
    await harness.let_go("InstanceTerraform")
    await harness.gone("Instance")


@pytest.mark.criterion("SG-75")
async def test_each_kind_is_gone_before_the_next_is_touched(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await harness.delete()
    kinds = ("InstanceInvariants", "InstanceKubernetes", "InstanceTerraform")
    for kind, later in zip(kinds, (*kinds[1:], None), strict=True):
        await harness.until(kind, lambda found: found.metadata.deletion_timestamp is not None)
        await harness.idle()
        if later is not None:
            assert (await harness.read(later)).metadata.deletion_timestamp is None
        await harness.let_go(kind)
    await harness.gone("Instance")


@pytest.mark.criterion("SG-13")
async def test_no_match_is_an_error_and_what_is_gone_is_left(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    await harness.there("InstanceTerraform")
    await harness.edit("Instance", {"debug": {"enableDeletionProtection": False}})
    await harness.delete()
    await harness.let_go("InstanceTerraform")
    await harness.gone("Instance")
    await harness.idle()
    assert "error" not in (harness.folder / "manager.log").read_text()


async def test_a_bundle_is_followed_by_its_contents(harness: InstanceHarness) -> None:
    bundle = {"bundle": {"configMapNames": ["files"]}}
    await harness.apply(instance(infrastructure={}, cluster=bundle))
    missing = await harness.phase("Failed")
    assert "'files'" in missing.status.message
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "files",
            "namespace": NAMESPACE,
            "labels": {"cloud.ctrlruntime.dev/bundle": "true"},
        },
        "data": {"a.yaml": "1"},
    }
    await harness.apply(manifest)
    first = (await harness.there("InstanceKubernetes")).spec.bundle_revision
    assert first
    await harness.apply({**manifest, "data": {"a.yaml": "2"}})
    await harness.until("InstanceKubernetes", lambda found: found.spec.bundle_revision != first)
    await harness.apply(manifest)
    await harness.until("InstanceKubernetes", lambda found: found.spec.bundle_revision == first)


@pytest.mark.criterion("SG-12")
async def test_an_upgrade_is_made_once_and_named_for_its_change(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await harness.edit("Instance", {"version": "5.2.0"})
    name = await harness.upgrade("5.2.0")
    assert name.startswith("src-1-")
    await harness.stop_manager()
    await harness.start_manager()
    await harness.idle()
    assert [item.metadata.name for item in await harness.upgrades()] == [name]
    with pytest.raises(Exception, match="an upgrade is used once"):
        await harness.edit("UpgradeInstanceTask", {"toVersion": "6.0.0"}, name)
    await harness.carry_out("UpgradeInstanceTask", name)
    await harness.until("InstanceKubernetes", lambda found: found.spec.version == "5.2.0")


@pytest.mark.criterion("SG-72")
async def test_a_failed_upgrade_holds_the_workload_until_the_version_is_put_back(
    harness: InstanceHarness,
) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await harness.edit("Instance", {"version": "5.2.0"})
    name = await harness.upgrade("5.2.0")
    await harness.fail("UpgradeInstanceTask", "The migration failed.", name)
    told = await harness.phase("Failed")
    assert "The migration failed" in told.status.message
    assert told.status.version == "5.1.0"
    assert (await harness.read("InstanceKubernetes")).spec.version == "5.1.0"
    assert len(await harness.upgrades()) == 1

    await harness.edit("Instance", {"version": "5.1.0"})
    key = "cloud.ctrlruntime.dev/rolled-back"
    back = await harness.until(
        "InstanceKubernetes", lambda found: key in (found.metadata.annotations or {})
    )
    assert back.metadata.annotations[key] == name  # another input: the workload is rolled out again
    assert back.spec.version == "5.1.0"

    await harness.edit("Instance", {"version": "5.2.1"})
    other = await harness.upgrade("5.2.1")
    await harness.carry_out("UpgradeInstanceTask", other)
    await harness.until(
        "InstanceKubernetes",
        lambda found: (
            found.spec.version == "5.2.1" and key not in (found.metadata.annotations or {})
        ),
    )


@pytest.mark.criterion("H-B5")
async def test_h_b5_a_failed_upgrade_is_replaced_by_changing_the_instance(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    e2e_harness.elsewhere.failing["upgrade"] = "no such migration"
    migrate = {"http": {"url": "http://db.example.com/wrong", "method": "POST"}}
    wrong = {"version": "5.2.0", "upgrade": {"migrate": migrate}}
    await e2e_harness.edit("Instance", wrong)
    await e2e_harness.phase("Failed")
    [first] = await e2e_harness.upgrades()
    assert "change the spec of the Instance" in first.status.message

    e2e_harness.elsewhere.failing.clear()
    migrate["http"]["url"] = "http://db.example.com/right"
    change = {
        "metadata": {"annotations": {"cloud.ctrlruntime.dev/retry": "1"}},
        "spec": {"upgrade": {"migrate": migrate}},
    }
    await e2e_harness.client.patch(Instance, "src-1", change, namespace=NAMESPACE)
    done = await e2e_harness.phase("Ready")
    assert done.status.version == "5.2.0"
    upgrades = {item.metadata.name: item for item in await e2e_harness.upgrades()}
    assert len(upgrades) == 2
    old = upgrades.pop(first.metadata.name)
    assert old.status.phase == "Superseded"
    assert old.metadata.annotations.get("cloud.ctrlruntime.dev/retry") is None
    [new] = upgrades.values()
    steps = new.spec.steps.model_dump(exclude_unset=True)
    assert steps["migrate"]["http"]["url"].endswith("/right")
    runs = [item for item in e2e_harness.elsewhere.started if item.input.task == "upgrade"]
    assert [run.input.owner.name for run in runs] == [first.metadata.name, new.metadata.name]


@pytest.mark.criterion("H-B5")
async def test_h_b5_a_retry_without_a_change_runs_the_same_upgrade_again(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    e2e_harness.elsewhere.failing["upgrade"] = "the database does not answer"
    await e2e_harness.edit("Instance", {"version": "5.2.0"})
    await e2e_harness.phase("Failed")
    e2e_harness.elsewhere.failing.clear()
    await e2e_harness.annotate(retry="1")
    await e2e_harness.phase("Ready")
    [only] = await e2e_harness.upgrades()
    assert only.status.run is not None
    assert only.status.run.attempt == 2


async def test_an_upgrade_no_longer_wanted_is_given_up(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await harness.edit("Instance", {"version": "5.2.0"})
    name = await harness.upgrade("5.2.0")
    await harness.edit("Instance", {"version": "5.3.0"})
    await harness.upgrade("5.3.0")
    given_up = await harness.read("UpgradeInstanceTask", name)
    assert given_up.metadata.annotations["cloud.ctrlruntime.dev/superseded"] == "true"
    assert given_up.metadata.annotations["cloud.ctrlruntime.dev/paused"] == "true"


@pytest.mark.criterion("SG-77")
async def test_an_expired_instance_is_deleted_at_its_time_without_polling(
    harness: InstanceHarness,
) -> None:
    lease = "ephemeral_instance_lease_time"
    features = {"ephemeral_instance": "true", lease: str(int(time.time()) + 3600)}
    await harness.apply(instance(instanceFeatures=features))
    await harness.there("InstanceTerraform")
    end = int(time.time()) + 3
    await harness.edit("Instance", {"instanceFeatures": {lease: str(end)}})
    gone = await harness.until("Instance", lambda f: f.metadata.deletion_timestamp is not None)
    assert gone.metadata.deletion_timestamp is not None
    assert gone.metadata.deletion_timestamp.timestamp() >= end
    deletes = [item for item in harness.environment.proxy.log.entries() if item.verb == "delete"]
    assert [item.name for item in deletes if item.resource.startswith("instances.")] == ["src-1"]


async def test_an_instance_that_cannot_be_read_reports_why(harness: InstanceHarness) -> None:
    manifest = instance(domain="a.example.com")
    manifest["metadata"]["name"] = "a" * 64
    await harness.apply(manifest)
    told = await harness.phase("Failed", "a" * 64)
    assert "63 characters" in told.status.message
