"""What people do to an instance: pause, break glass, upgrade, names, bundles, protection, leases."""

from __future__ import annotations

import time

import pytest

from apis.cloud import Instance
from ctrlruntime.api import find_condition
from tests.cloud.instance.e2e_harness import Theatre
from tests.cloud.instance.harness import NAMESPACE, Stage, instance, ready_of


@pytest.mark.criterion("SG-70")
async def test_nothing_is_written_while_extracted_and_nothing_runs_again(theatre: Theatre) -> None:
    await theatre.apply(instance())
    await theatre.phase("Ready")
    await theatre.annotate(control_plane_mode="false")
    await theatre.idle()
    start = theatre.mark()
    await theatre.edit("Instance", {"managedSMTP": {"disabled": True}})
    await theatre.edit("InstanceTerraform", {"tfcRunsMode": "vcs"})
    await theatre.idle()
    assert theatre.writes(start) == []
    await theatre.edit("Instance", {"managedSMTP": {"disabled": False}})
    await theatre.annotate(control_plane_mode=None)
    await theatre.until("InstanceTerraform", lambda found: found.spec.tfc_runs_mode == "cli")
    await theatre.phase("Ready")
    await theatre.idle()
    assert theatre.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]


async def test_paused_begins_nothing_new_and_awaits_what_runs(theatre: Theatre) -> None:
    theatre.elsewhere.held.add("terraform")
    await theatre.apply(instance())
    await theatre.until("Instance", lambda found: bool(found.status.task))
    await theatre.annotate(paused="true")
    told = await theatre.phase("Paused")
    assert "manager instance resume" in told.status.message
    theatre.elsewhere.end("terraform")
    await theatre.until("InstanceTerraform", lambda found: ready_of(found) == "True")
    await theatre.idle()
    assert theatre.elsewhere.tasks() == ["terraform"]
    assert await theatre.get("InstanceKubernetes") is None
    await theatre.annotate(paused=None)
    await theatre.phase("Ready")


@pytest.mark.criterion("H-B11")
async def test_h_b11_the_annotation_of_the_library_pauses_the_subresources_too(
    theatre: Theatre,
) -> None:
    theatre.elsewhere.failing["terraform"] = "no quota"
    await theatre.apply(instance())
    await theatre.phase("Failed")
    patch = {"metadata": {"annotations": {"ctrlruntime.dev/paused": "true"}}}
    await theatre.client.patch(Instance, "src-1", patch, namespace=NAMESPACE)
    await theatre.phase("Paused")
    paused = await theatre.until(
        "InstanceTerraform", lambda found: found is not None and found.status.phase == "Paused"
    )
    assert "ctrlruntime.dev/paused of its instance" in paused.status.message


@pytest.mark.criterion("SG-76")
async def test_a_name_belongs_to_one_instance(stage: Stage) -> None:
    await stage.apply(instance("src-1", domain="a.example.com"))
    await stage.until("Instance", lambda found: found.status.domains == ["a.example.com"])
    await stage.apply(instance("src-2", domain="A.example.com."))
    refused = await stage.phase("Failed", "src-2")
    condition = find_condition(refused.status.conditions, "DomainConflict")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "DomainTaken")
    assert "default/src-1" in condition.message
    assert await stage.get("InstanceTerraform", "src-2") is None

    await stage.edit("Instance", {"domain": "b.example.com"})
    await stage.until("InstanceTerraform", lambda found: found.spec.domain == "b.example.com")
    await stage.idle()  # the name is free once the infrastructure has given it up, not sooner
    assert await stage.get("InstanceTerraform", "src-2") is None
    await stage.roll_out()
    await stage.there("InstanceTerraform", "src-2")
    freed = await stage.until(
        "Instance", lambda found: found.status.domains == ["a.example.com"], "src-2"
    )
    assert find_condition(freed.status.conditions, "DomainConflict") is None


@pytest.mark.criterion("SG-75")
async def test_protection_holds_a_deletion_back(stage: Stage) -> None:
    await stage.apply(instance(debug={}))
    await stage.there("InstanceTerraform")
    await stage.delete()
    held = await stage.phase("Deleting")
    assert "enableDeletionProtection" in held.status.message
    await stage.idle()
    assert (await stage.read("InstanceTerraform")).metadata.deletion_timestamp is None
    await stage.edit("Instance", {"debug": {"enableDeletionProtection": False}})
    await stage.until("InstanceTerraform", lambda f: f.metadata.deletion_timestamp is not None)
    await stage.let_go("InstanceTerraform")
    await stage.gone("Instance")


@pytest.mark.criterion("SG-75")
async def test_each_kind_is_gone_before_the_next_is_touched(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.roll_out()
    await stage.delete()
    kinds = ("InstanceInvariants", "InstanceKubernetes", "InstanceTerraform")
    for kind, later in zip(kinds, (*kinds[1:], None), strict=True):
        await stage.until(kind, lambda found: found.metadata.deletion_timestamp is not None)
        await stage.idle()
        if later is not None:
            assert (await stage.read(later)).metadata.deletion_timestamp is None
        await stage.let_go(kind)
    await stage.gone("Instance")


@pytest.mark.criterion("SG-13")
async def test_nobody_is_an_error_and_what_is_gone_is_left(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.there("InstanceTerraform")
    await stage.edit("Instance", {"debug": {"enableDeletionProtection": False}})
    await stage.delete()
    await stage.let_go("InstanceTerraform")
    await stage.gone("Instance")
    await stage.idle()
    assert "error" not in (stage.folder / "manager.log").read_text()


async def test_a_bundle_is_followed_by_its_contents(stage: Stage) -> None:
    bundle = {"bundle": {"configMapNames": ["files"]}}
    await stage.apply(instance(infrastructure={}, cluster=bundle))
    missing = await stage.phase("Failed")
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
    await stage.apply(manifest)
    first = (await stage.there("InstanceKubernetes")).spec.bundle_revision
    assert first
    await stage.apply({**manifest, "data": {"a.yaml": "2"}})
    await stage.until("InstanceKubernetes", lambda found: found.spec.bundle_revision != first)
    await stage.apply(manifest)
    await stage.until("InstanceKubernetes", lambda found: found.spec.bundle_revision == first)


@pytest.mark.criterion("SG-12")
async def test_an_upgrade_is_made_once_and_named_for_its_change(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.roll_out()
    await stage.edit("Instance", {"sourcegraphVersion": "5.2.0"})
    name = await stage.upgrade("5.2.0")
    assert name.startswith("src-1-")
    await stage.stop_manager()
    await stage.start_manager()
    await stage.idle()
    assert [item.metadata.name for item in await stage.upgrades()] == [name]
    with pytest.raises(Exception, match="an upgrade is used once"):
        await stage.edit("UpgradeInstanceTask", {"toVersion": "6.0.0"}, name)
    await stage.carry_out("UpgradeInstanceTask", name)
    await stage.until("InstanceKubernetes", lambda found: found.spec.version == "5.2.0")


@pytest.mark.criterion("SG-72")
async def test_a_failed_upgrade_holds_the_workload_until_the_version_is_put_back(
    stage: Stage,
) -> None:
    await stage.apply(instance())
    await stage.roll_out()
    await stage.edit("Instance", {"sourcegraphVersion": "5.2.0"})
    name = await stage.upgrade("5.2.0")
    await stage.fail("UpgradeInstanceTask", "The migration failed.", name)
    told = await stage.phase("Failed")
    assert "The migration failed" in told.status.message
    assert told.status.version == "5.1.0"
    assert (await stage.read("InstanceKubernetes")).spec.version == "5.1.0"
    assert len(await stage.upgrades()) == 1

    await stage.edit("Instance", {"sourcegraphVersion": "5.1.0"})
    key = "cloud.ctrlruntime.dev/rolled-back"
    back = await stage.until(
        "InstanceKubernetes", lambda found: key in (found.metadata.annotations or {})
    )
    assert back.metadata.annotations[key] == name  # another input: the workload is rolled out again
    assert back.spec.version == "5.1.0"

    await stage.edit("Instance", {"sourcegraphVersion": "5.2.1"})
    other = await stage.upgrade("5.2.1")
    await stage.carry_out("UpgradeInstanceTask", other)
    await stage.until(
        "InstanceKubernetes",
        lambda found: (
            found.spec.version == "5.2.1" and key not in (found.metadata.annotations or {})
        ),
    )


@pytest.mark.criterion("H-B5")
async def test_h_b5_a_failed_upgrade_is_replaced_by_changing_the_instance(theatre: Theatre) -> None:
    await theatre.apply(instance())
    await theatre.phase("Ready")
    theatre.elsewhere.failing["upgrade"] = "no such migration"
    migrate = {"http": {"url": "http://db.example.com/wrong", "method": "POST"}}
    wrong = {"sourcegraphVersion": "5.2.0", "upgrade": {"migrate": migrate}}
    await theatre.edit("Instance", wrong)
    await theatre.phase("Failed")
    [first] = await theatre.upgrades()
    assert "change the spec of the Instance" in first.status.message

    theatre.elsewhere.failing.clear()
    migrate["http"]["url"] = "http://db.example.com/right"
    change = {
        "metadata": {"annotations": {"cloud.ctrlruntime.dev/retry": "1"}},
        "spec": {"upgrade": {"migrate": migrate}},
    }
    await theatre.client.patch(Instance, "src-1", change, namespace=NAMESPACE)
    done = await theatre.phase("Ready")
    assert done.status.version == "5.2.0"
    upgrades = {item.metadata.name: item for item in await theatre.upgrades()}
    assert len(upgrades) == 2
    old = upgrades.pop(first.metadata.name)
    assert old.status.phase == "Superseded"
    assert old.metadata.annotations.get("cloud.ctrlruntime.dev/retry") is None
    [new] = upgrades.values()
    steps = new.spec.steps.model_dump(exclude_unset=True)
    assert steps["migrate"]["http"]["url"].endswith("/right")
    runs = [item for item in theatre.elsewhere.started if item.input.task == "upgrade"]
    assert [run.input.owner.name for run in runs] == [first.metadata.name, new.metadata.name]


@pytest.mark.criterion("H-B5")
async def test_h_b5_a_retry_without_a_change_runs_the_same_upgrade_again(theatre: Theatre) -> None:
    await theatre.apply(instance())
    await theatre.phase("Ready")
    theatre.elsewhere.failing["upgrade"] = "the database does not answer"
    await theatre.edit("Instance", {"sourcegraphVersion": "5.2.0"})
    await theatre.phase("Failed")
    theatre.elsewhere.failing.clear()
    await theatre.annotate(retry="1")
    await theatre.phase("Ready")
    [only] = await theatre.upgrades()
    assert only.status.run is not None
    assert only.status.run.attempt == 2


async def test_an_upgrade_that_nobody_wants_any_more_is_given_up(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.roll_out()
    await stage.edit("Instance", {"sourcegraphVersion": "5.2.0"})
    name = await stage.upgrade("5.2.0")
    await stage.edit("Instance", {"sourcegraphVersion": "5.3.0"})
    await stage.upgrade("5.3.0")
    given_up = await stage.read("UpgradeInstanceTask", name)
    assert given_up.metadata.annotations["cloud.ctrlruntime.dev/superseded"] == "true"
    assert given_up.metadata.annotations["cloud.ctrlruntime.dev/paused"] == "true"


@pytest.mark.criterion("SG-77")
async def test_an_expired_instance_is_deleted_at_its_time_without_polling(stage: Stage) -> None:
    lease = "ephemeral_instance_lease_time"
    features = {"ephemeral_instance": "true", lease: str(int(time.time()) + 3600)}
    await stage.apply(instance(instanceFeatures=features))
    await stage.there("InstanceTerraform")
    end = int(time.time()) + 3
    await stage.edit("Instance", {"instanceFeatures": {lease: str(end)}})
    gone = await stage.until("Instance", lambda f: f.metadata.deletion_timestamp is not None)
    assert gone.metadata.deletion_timestamp is not None
    assert gone.metadata.deletion_timestamp.timestamp() >= end
    deletes = [item for item in stage.environment.proxy.log.entries() if item.verb == "delete"]
    assert [item.name for item in deletes if item.resource.startswith("instances.")] == ["src-1"]


async def test_an_instance_that_cannot_be_read_says_why(stage: Stage) -> None:
    manifest = instance(domain="a.example.com")
    manifest["metadata"]["name"] = "a" * 64
    await stage.apply(manifest)
    told = await stage.phase("Failed", "a" * 64)
    assert "63 characters" in told.status.message
