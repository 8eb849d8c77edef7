"""From apply to Ready: one subresource after another, and what the status says on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cloud.instance.harness import Stage, instance, ready_of


def at_work_as(task: str) -> Callable[[Any], bool]:
    return lambda found: bool(found.status.task == task)


CHILDREN = ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants")


@pytest.mark.criterion("SG-03")
@pytest.mark.criterion("SG-07")
@pytest.mark.criterion("SG-08")
async def test_one_after_another(stage: Stage) -> None:
    await stage.apply(instance())
    for kind, later in zip(CHILDREN, (*CHILDREN[1:], None), strict=True):
        await stage.there(kind)
        await stage.idle()
        if later is not None:
            assert await stage.get(later) is None, f"{later} came before {kind} was ready"
        await stage.begin(kind)
        task = f"{kind.lower()}-0123456789ab"
        running = await stage.until("Instance", at_work_as(task))
        assert running.status.phase == "Running"
        assert kind in running.status.message
        await stage.carry_out(kind, outputs={kind: "done"})
    ready = await stage.phase("Ready")
    assert ready_of(ready) == "True"
    assert ready.status.version == "5.1.0"
    assert ready.status.task == ""
    assert [child.kind for child in ready.status.children] == list(CHILDREN)
    assert all(child.ready for child in ready.status.children)
    assert ready.status.outputs == dict.fromkeys(CHILDREN, "done")


@pytest.mark.criterion("SG-01")
@pytest.mark.criterion("SG-02")
async def test_writes_of_a_roll_out_and_none_at_rest(stage: Stage) -> None:
    start = stage.mark()
    await stage.apply(instance())
    for kind in CHILDREN:
        await stage.there(kind)
        waiting = {"reason": "Limit", "limit": 1, "position": 3, "since": "2026-01-02T03:04:05Z"}
        await stage.say(kind, phase="Waiting", waiting=waiting)
        await stage.phase("Waiting")
        for position in (2, 1):
            await stage.say(kind, waiting={**waiting, "position": position})
        await stage.begin(kind, waiting=None)
        await stage.phase("Running")
        await stage.carry_out(kind)
    await stage.phase("Ready")
    await stage.idle()
    own = [item for item in stage.writes(start) if item.resource.startswith("instances")]
    assert len(own) <= 9, own
    others = [item for item in stage.writes(start) if item not in own]
    events = [item for item in others if item.resource.startswith("events.")]
    assert len(events) == 1, events
    assert len(others) - len(events) == 3, others

    at_rest = stage.mark()
    await stage.annotate(anything="else")  # looked at, found to be as it should be
    await stage.idle()
    assert stage.writes(at_rest) == []
    await stage.stop_manager()
    await stage.start_manager()
    await stage.idle()
    leases = [item for item in stage.writes(at_rest) if item.resource != "leases"]
    assert leases == []


@pytest.mark.criterion("SG-06")
async def test_done_for_earlier_inputs_is_not_ready(stage: Stage) -> None:
    await stage.apply(instance(domain="one.example.com"))
    await stage.carry_out("InstanceTerraform")
    await stage.there("InstanceKubernetes")
    old = (await stage.read("InstanceTerraform")).status
    await stage.edit("Instance", {"domain": "two.example.com"})
    changed = await stage.until("InstanceTerraform", lambda f: f.spec.domain == "two.example.com")
    await stage.idle()
    kubernetes = await stage.read("InstanceKubernetes")
    assert kubernetes.spec.domain == "one.example.com", "went on although Terraform is not ready"

    # What a lagging driver might write: the new generation, but the success of the old inputs.
    done = old.succeeded.model_dump(mode="json", by_alias=True)
    ready = {"type": "Ready", "status": "True", "reason": "Stale", "message": ""}
    ready |= {"lastTransitionTime": "2026-01-02T03:04:05Z"}
    await stage.say("InstanceTerraform", succeeded=done, phase="Ready", conditions=[ready])
    assert changed.metadata.generation == 2
    await stage.idle()
    assert (await stage.read("InstanceKubernetes")).spec.domain == "one.example.com"
    assert ready_of(await stage.read("Instance")) == "False"

    await stage.carry_out("InstanceTerraform")
    await stage.until("InstanceKubernetes", lambda f: f.spec.domain == "two.example.com")


@pytest.mark.criterion("SG-09")
async def test_outputs_feed_the_next(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.carry_out("InstanceTerraform", outputs={"ip": "10.0.0.1"}, outputsSecretName="s")
    kubernetes = await stage.there("InstanceKubernetes")
    assert kubernetes.spec.outputs == {"ip": "10.0.0.1"}
    assert kubernetes.spec.outputs_secret_name == "s"
    await stage.carry_out("InstanceKubernetes", outputs={"url": "https://x"})
    invariants = await stage.there("InstanceInvariants")
    assert invariants.spec.outputs == {"ip": "10.0.0.1", "url": "https://x"}
    await stage.carry_out("InstanceInvariants")
    await stage.phase("Ready")
    await stage.carry_out("InstanceTerraform", outputs={"ip": "10.0.0.2"})
    again = await stage.until("InstanceKubernetes", lambda f: f.spec.outputs["ip"] == "10.0.0.2")
    assert again.metadata.generation == 2


@pytest.mark.criterion("SG-10")
async def test_a_child_edited_by_hand_is_reverted(stage: Stage) -> None:
    await stage.apply(instance(domain="one.example.com", instanceFeatures={"a": "1"}))
    before = (await stage.there("InstanceTerraform")).spec
    for spec in (
        {"domain": "two.example.com"},  # a field of ours
        {"domain": None},
        {"instanceFeatures": {"b": "2"}},  # one that is added to a map of ours
        {"tfcRunsMode": "vcs"},  # one that we left to its default
    ):
        await stage.edit("InstanceTerraform", spec)
        await stage.until("InstanceTerraform", lambda found: found.spec == before)
        await stage.idle()
    await stage.delete(kind="InstanceTerraform")
    await stage.let_go("InstanceTerraform")
    again = await stage.there("InstanceTerraform")
    assert again.spec == before


async def test_no_terraform_and_disks(stage: Stage) -> None:
    usage = {"url": "https://usage.example.com"}
    disks = {"disks": {"maxSize": "1Ti", "usage": usage}}
    await stage.apply(instance(infrastructure={}, cluster=disks))
    await stage.carry_out("InstanceKubernetes")
    assert await stage.get("InstanceTerraform") is None
    await stage.there("InstanceKubernetesPVC")
    await stage.carry_out("InstanceInvariants")
    ready = await stage.phase("Ready")  # disks that nobody has looked at yet hold nothing up
    await stage.fail("InstanceKubernetesPVC", "No answer from usage.example.com.")
    told = await stage.until("Instance", lambda f: "usage.example.com" in f.status.message)
    assert ready_of(told) == "True"
    assert ready.status.children[1].kind == "InstanceKubernetesPVC"
    await stage.edit("Instance", {"cluster": {"disks": None}})
    await stage.until("InstanceKubernetesPVC", lambda f: f.metadata.deletion_timestamp is not None)
    await stage.let_go("InstanceKubernetesPVC")
    await stage.until("Instance", lambda f: len(f.status.children) == 2)


async def test_infrastructure_that_left_the_spec_is_kept_while_protected(stage: Stage) -> None:
    await stage.apply(instance(debug={}))
    await stage.roll_out()
    await stage.edit("Instance", {"infrastructure": {"terraform": None}})
    held = await stage.phase("Failed")
    assert "enableDeletionProtection" in held.status.message
    assert (await stage.read("InstanceTerraform")).metadata.deletion_timestamp is None
    await stage.edit("Instance", {"debug": {"enableDeletionProtection": False}})
    await stage.until("InstanceTerraform", lambda f: f.metadata.deletion_timestamp is not None)


@pytest.mark.criterion("SG-62")
@pytest.mark.parametrize(
    ("phase", "shown"), [("Failed", "manager instance retry"), ("Retrying", "by itself")]
)
async def test_trouble_says_what_to_do(stage: Stage, phase: str, shown: str) -> None:
    await stage.apply(instance())
    await stage.fail("InstanceTerraform", "The workspace is locked by somebody.", phase=phase)
    told = await stage.phase(phase)
    assert "The workspace is locked by somebody" in told.status.message
    assert shown in told.status.message
    assert ready_of(told) == "False"


async def test_a_retry_is_handed_on_once(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.fail("InstanceTerraform", "No.")
    await stage.phase("Failed")
    await stage.annotate(retry="1")
    key = "cloud.ctrlruntime.dev/retry"
    asked = await stage.until("InstanceTerraform", lambda f: key in (f.metadata.annotations or {}))
    assert asked.metadata.annotations[key] == "instance-1"
    await stage.until("Instance", lambda found: found.status.last_handled_retry == "1")
    await stage.annotate(kind="InstanceTerraform", retry="by hand")
    await stage.idle()
    kept = await stage.read("InstanceTerraform")
    assert kept.metadata.annotations[key] == "by hand"


async def test_a_subresource_that_stays_silent_is_not_waited_for_for_long(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.carry_out("InstanceTerraform")
    await stage.there("InstanceKubernetes")
    told = await stage.until("Instance", lambda found: len(found.status.children) == 2)
    assert "InstanceKubernetes is about to begin" in told.status.message


async def test_gcp_comes_from_outputs(stage: Stage) -> None:
    await stage.apply(instance())
    outputs = {"project_id": "p-1", "region": "us-central1", "gke_clusters": '["blue", "green"]'}
    await stage.carry_out("InstanceTerraform", outputs={**outputs, "cloudsql_instances": "db-1"})
    await stage.begin("InstanceKubernetes")
    told = await stage.until("Instance", lambda found: found.status.gcp is not None)
    assert told.status.gcp.project_id == "p-1"
    assert [item.name for item in told.status.gcp.gke_clusters] == ["blue", "green"]
    assert [item.name for item in told.status.gcp.cloud_sql] == ["db-1"]
