"""From apply to Ready: one subresource after another, and what the status says on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apis.cloud import InstanceTerraform
from apis.cloud.common import TaskStatus
from ctrlruntime.api import ObjectMeta, find_condition
from internal.cloud.instance.order import Child
from internal.cloud.instance.status import _sentence
from internal.cloud.subresource import Subresource
from internal.cloud.subresources import SUBRESOURCES
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance, ready_of


def at_work_as(task: str) -> Callable[[Any], bool]:
    return lambda found: bool(found.status.task == task)


CHILDREN = ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants")


@pytest.mark.criterion("SG-03")
@pytest.mark.criterion("SG-07")
@pytest.mark.criterion("SG-08")
async def test_one_after_another(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    for kind, later in zip(CHILDREN, (*CHILDREN[1:], None), strict=True):
        await harness.there(kind)
        await harness.idle()
        if later is not None:
            assert await harness.get(later) is None, f"{later} came before {kind} was ready"
        await harness.begin(kind)
        task = f"{kind.lower()}-0123456789ab"
        running = await harness.until("Instance", at_work_as(task))
        assert running.status.phase == "Running"
        assert kind in running.status.message
        await harness.carry_out(kind, outputs={kind: "done"})
    ready = await harness.phase("Ready")
    assert ready_of(ready) == "True"
    assert ready.status.version == "5.1.0"
    assert ready.status.task == ""
    assert [child.kind for child in ready.status.children] == list(CHILDREN)
    assert all(child.ready for child in ready.status.children)
    assert ready.status.outputs == dict.fromkeys(CHILDREN, "done")


@pytest.mark.criterion("SG-01")
@pytest.mark.criterion("SG-02")
async def test_writes_of_a_roll_out_and_none_at_rest(harness: InstanceHarness) -> None:
    start = harness.mark()
    await harness.apply(instance())
    for kind in CHILDREN:
        await harness.there(kind)
        waiting = {"reason": "Limit", "limit": 1, "position": 3, "since": "2026-01-02T03:04:05Z"}
        await harness.say(kind, phase="Waiting", waiting=waiting)
        await harness.phase("Waiting")
        for position in (2, 1):
            await harness.say(kind, waiting={**waiting, "position": position})
        await harness.begin(kind, waiting=None)
        await harness.phase("Running")
        await harness.carry_out(kind)
    await harness.phase("Ready")
    await harness.idle()
    own = [item for item in harness.writes(start) if item.resource.startswith("instances")]
    assert len(own) <= 9, own
    others = [item for item in harness.writes(start) if item not in own]
    events = [item for item in others if item.resource.startswith("events.")]
    assert len(events) == 1, events
    assert len(others) - len(events) == 3, others

    at_rest = harness.mark()
    await harness.annotate(anything="else")  # looked at, found to be as it should be
    await harness.idle()
    assert harness.writes(at_rest) == []
    await harness.stop_manager()
    await harness.start_manager()
    await harness.idle()
    leases = [item for item in harness.writes(at_rest) if item.resource != "leases"]
    assert leases == []


@pytest.mark.criterion("SG-06")
async def test_done_for_earlier_inputs_is_not_ready(harness: InstanceHarness) -> None:
    await harness.apply(instance(domain="one.example.com"))
    await harness.carry_out("InstanceTerraform")
    await harness.there("InstanceKubernetes")
    old = (await harness.read("InstanceTerraform")).status
    await harness.edit("Instance", {"domain": "two.example.com"})
    changed = await harness.until("InstanceTerraform", lambda f: f.spec.domain == "two.example.com")
    await harness.idle()
    kubernetes = await harness.read("InstanceKubernetes")
    assert kubernetes.spec.domain == "one.example.com", "went on although Terraform is not ready"

    # What a lagging driver might write: the new generation, but the success of the old inputs.
    done = old.succeeded.model_dump(mode="json", by_alias=True)
    ready = {"type": "Ready", "status": "True", "reason": "Stale", "message": ""}
    ready |= {"lastTransitionTime": "2026-01-02T03:04:05Z"}
    await harness.say("InstanceTerraform", succeeded=done, phase="Ready", conditions=[ready])
    assert changed.metadata.generation == 2
    await harness.idle()
    assert (await harness.read("InstanceKubernetes")).spec.domain == "one.example.com"
    assert ready_of(await harness.read("Instance")) == "False"

    await harness.carry_out("InstanceTerraform")
    await harness.until("InstanceKubernetes", lambda f: f.spec.domain == "two.example.com")


@pytest.mark.criterion("SG-09")
async def test_outputs_feed_the_next(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    await harness.carry_out("InstanceTerraform", outputs={"ip": "10.0.0.1"}, outputsSecretName="s")
    kubernetes = await harness.there("InstanceKubernetes")
    assert kubernetes.spec.outputs == {"ip": "10.0.0.1"}
    assert kubernetes.spec.outputs_secret_name == "s"
    await harness.carry_out("InstanceKubernetes", outputs={"url": "https://x"})
    invariants = await harness.there("InstanceInvariants")
    assert invariants.spec.outputs == {"ip": "10.0.0.1", "url": "https://x"}
    await harness.carry_out("InstanceInvariants")
    await harness.phase("Ready")
    await harness.carry_out("InstanceTerraform", outputs={"ip": "10.0.0.2"})
    again = await harness.until("InstanceKubernetes", lambda f: f.spec.outputs["ip"] == "10.0.0.2")
    assert again.metadata.generation == 2


@pytest.mark.criterion("SG-10")
async def test_a_child_edited_by_hand_is_reverted(harness: InstanceHarness) -> None:
    await harness.apply(instance(domain="one.example.com", instanceFeatures={"a": "1"}))
    before = (await harness.there("InstanceTerraform")).spec
    for spec in (
        {"domain": "two.example.com"},  # a field of ours
        {"domain": None},
        {"instanceFeatures": {"b": "2"}},  # one that is added to a map of ours
        {"tfcRunsMode": "vcs"},  # one that we left to its default
    ):
        await harness.edit("InstanceTerraform", spec)
        await harness.until("InstanceTerraform", lambda found: found.spec == before)
        await harness.idle()
    await harness.delete(kind="InstanceTerraform")
    await harness.let_go("InstanceTerraform")
    again = await harness.there("InstanceTerraform")
    assert again.spec == before


async def test_no_terraform_and_disks(harness: InstanceHarness) -> None:
    usage = {"url": "https://usage.example.com"}
    disks = {"disks": {"maxSize": "1Ti", "usage": usage}}
    await harness.apply(instance(infrastructure={}, cluster=disks))
    await harness.carry_out("InstanceKubernetes")
    assert await harness.get("InstanceTerraform") is None
    await harness.there("InstanceKubernetesPVC")
    await harness.carry_out("InstanceInvariants")
    ready = await harness.phase("Ready")  # disks that nobody has looked at yet hold nothing up
    await harness.fail("InstanceKubernetesPVC", "No answer from usage.example.com.")
    told = await harness.until("Instance", lambda f: "usage.example.com" in f.status.message)
    assert ready_of(told) == "True"
    assert ready.status.children[1].kind == "InstanceKubernetesPVC"
    await harness.edit("Instance", {"cluster": {"disks": None}})
    await harness.until(
        "InstanceKubernetesPVC", lambda f: f.metadata.deletion_timestamp is not None
    )
    await harness.let_go("InstanceKubernetesPVC")
    await harness.until("Instance", lambda f: len(f.status.children) == 2)


async def test_infrastructure_that_left_the_spec_is_kept_while_protected(
    harness: InstanceHarness,
) -> None:
    await harness.apply(instance(debug={}))
    await harness.roll_out()
    await harness.edit("Instance", {"infrastructure": {"terraform": None}})
    held = await harness.phase("Failed")
    assert "enableDeletionProtection" in held.status.message
    assert (await harness.read("InstanceTerraform")).metadata.deletion_timestamp is None
    await harness.edit("Instance", {"debug": {"enableDeletionProtection": False}})
    await harness.until("InstanceTerraform", lambda f: f.metadata.deletion_timestamp is not None)


@pytest.mark.criterion("SG-62")
@pytest.mark.parametrize(
    ("phase", "shown"), [("Failed", "manager instance retry"), ("Retrying", "by itself")]
)
async def test_trouble_reports_what_to_do(harness: InstanceHarness, phase: str, shown: str) -> None:
    await harness.apply(instance())
    await harness.fail("InstanceTerraform", "The workspace is locked by somebody.", phase=phase)
    told = await harness.phase(phase)
    assert "The workspace is locked by somebody" in told.status.message
    assert shown in told.status.message
    assert ready_of(told) == "False"


async def test_a_retry_is_handed_on_once(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    await harness.fail("InstanceTerraform", "No.")
    await harness.phase("Failed")
    await harness.annotate(retry="1")
    key = "cloud.ctrlruntime.dev/retry"
    asked = await harness.until(
        "InstanceTerraform", lambda f: key in (f.metadata.annotations or {})
    )
    assert asked.metadata.annotations[key] == "instance-1"
    await harness.until("Instance", lambda found: found.status.last_handled_retry == "1")
    await harness.annotate(kind="InstanceTerraform", retry="by hand")
    await harness.idle()
    kept = await harness.read("InstanceTerraform")
    assert kept.metadata.annotations[key] == "by hand"


async def test_a_subresource_that_stays_silent_is_not_waited_for_for_long(
    harness: InstanceHarness,
) -> None:
    await harness.apply(instance())
    await harness.carry_out("InstanceTerraform")
    await harness.there("InstanceKubernetes")
    told = await harness.until("Instance", lambda found: len(found.status.children) == 2)
    assert "InstanceKubernetes is about to begin" in told.status.message


async def test_gcp_comes_from_outputs(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    outputs = {"project_id": "p-1", "region": "us-central1", "gke_clusters": '["blue", "green"]'}
    await harness.carry_out("InstanceTerraform", outputs={**outputs, "cloudsql_instances": "db-1"})
    await harness.begin("InstanceKubernetes")
    told = await harness.until("Instance", lambda found: found.status.gcp is not None)
    assert told.status.gcp.project_id == "p-1"
    assert [item.name for item in told.status.gcp.gke_clusters] == ["blue", "green"]
    assert [item.name for item in told.status.gcp.cloud_sql] == ["db-1"]


MESSAGE = "Use `kubectl label secret s a=true`"


@pytest.mark.criterion("S-F5")
@pytest.mark.parametrize("subresource", SUBRESOURCES, ids=lambda each: each.kind.__name__)
@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("SecretNotLabelled", f"does not begin: {MESSAGE}."),
        ("Pending", "is about to begin."),
    ],
)
def test_the_reason_why_a_subresource_does_not_begin_is_shown(
    subresource: Subresource[Any], reason: str, shown: str
) -> None:
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "message": MESSAGE,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = TaskStatus.model_validate(
        {"observedGeneration": 1, "phase": "Pending", "message": MESSAGE, "conditions": [ready]}
    )
    metadata = ObjectMeta(name="src-1", generation=1)
    made = subresource.kind.model_construct(metadata=metadata, status=status)
    child = Child(subresource=subresource, object=made)
    assert _sentence(child, [child], "src-1 -n a") == f"{child.kind} {shown}"


GCP: dict[str, Any] = {"terraform": {}, "gcp": {"zone": "us-central1-f"}}


@pytest.mark.criterion("H-R3", "H-R4")
async def test_a_field_that_cannot_be_taken_back_is_reported_and_can_be_agreed_on(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.apply(instance(infrastructure=GCP))
    await e2e_harness.phase("Ready")
    by_hand = {"spec": {"infrastructure": {"gcp": {"projectId": "by-hand"}}}}
    await e2e_harness.client.patch(
        InstanceTerraform, "src-1", by_hand, namespace=NAMESPACE, field_manager="people"
    )
    found = await e2e_harness.phase("Failed")
    ready = find_condition(found.status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "False"
    assert "InstanceTerraform 'src-1'" in found.status.message
    assert "projectId cannot be changed once it is set" in found.status.message
    assert "Give the spec of the Instance the value" in found.status.message
    agreed = {"infrastructure": {"gcp": {"projectId": "by-hand"}}}
    await e2e_harness.edit("Instance", agreed)
    await e2e_harness.phase("Ready")
