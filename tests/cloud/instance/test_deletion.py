"""What the deletion of an Instance takes along: held with a digest, left to itself, or repaired on the Instance."""

from __future__ import annotations

import re
from typing import Any

import pytest

from apis.cloud import Instance, InstanceKubernetes, InstanceTerraform
from ctrlruntime.api import GroupVersionKind, Resource, find_condition
from internal.cloud.labels import DELETION_PROTECTION, MISSING_STATE, TEARDOWN_APPROVED
from internal.removal_holds import allow_delete
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, instance
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("G-C6")

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")
ALLOW = allow_delete("cloud.ctrlruntime.dev")
ON: dict[str, Any] = {"debug": {"enableDeletionProtection": True}}
OFF: dict[str, Any] = {"debug": {"enableDeletionProtection": False}}


def condition(found: Resource[Any, Any], name: str) -> str:
    seen = find_condition(found.status.conditions, name)
    return "" if seen is None or seen.status != "True" else seen.message


async def held(harness: E2EHarness) -> str:
    found = await harness.until("Instance", lambda seen: bool(condition(seen, "DeletionsHeld")))
    return condition(found, "DeletionsHeld")


async def events(harness: E2EHarness, reason: str) -> list[str]:
    """Notes of the events of the Instance with a reason, once there are any."""

    async def read() -> list[str]:
        found = await harness.client.list(EVENT, namespace=NAMESPACE)
        return [
            each["note"]
            for each in found
            if each["reason"] == reason and each["regarding"]["kind"] == "Instance"
        ]

    return await eventually(read, bool)


@pytest.mark.parametrize(
    ("fields", "protects"),
    [
        ({**ON}, True),
        ({**OFF}, False),
        ({**OFF, "deletionProtection": True}, True),
        ({**ON, "deletionProtection": False}, False),
    ],
)
async def test_g_c6_the_newer_field_wins_over_the_older(
    e2e_harness: E2EHarness, fields: dict[str, Any], protects: bool
) -> None:
    await e2e_harness.apply(instance(**fields))
    await e2e_harness.phase("Ready")
    child = await e2e_harness.there("InstanceTerraform")
    assert child.metadata.annotations is not None
    assert child.metadata.annotations[DELETION_PROTECTION] == str(protects).lower()
    await e2e_harness.delete()
    if protects:
        assert "spec.deletionProtection" in await held(e2e_harness)
    else:
        await e2e_harness.gone("Instance")


async def test_g_c6_a_held_teardown_is_approved_by_its_digest_alone(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.apply(instance(**ON))
    await e2e_harness.phase("Ready")
    await e2e_harness.delete()
    message = await held(e2e_harness)
    for kind in ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants"):
        assert f"{kind}.cloud.ctrlruntime.dev {NAMESPACE}/src-1 (ParentDeleted)" in message
    command = re.search(
        rf"kubectl annotate instance src-1 -n {NAMESPACE} --overwrite {ALLOW}=([0-9a-f]+)", message
    )
    assert command is not None
    await e2e_harness.annotate(allow_delete="0" * 16)
    await e2e_harness.until(
        "Instance", lambda seen: "approves another set" in condition(seen, "DeletionsHeld")
    )
    await e2e_harness.idle()
    assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]
    await e2e_harness.annotate(allow_delete=command.group(1))
    await e2e_harness.gone("Instance")
    assert e2e_harness.elsewhere.tasks()[3:] == ["-invariants", "-kubernetes", "-terraform"]
    assert not any(each.input.protected for each in e2e_harness.elsewhere.started[3:])


@pytest.mark.parametrize("fields", [ON, OFF])
async def test_g_c6_orphan_keeps_what_was_built_and_reports_it(
    e2e_harness: E2EHarness, fields: dict[str, Any]
) -> None:
    await e2e_harness.apply(instance(**fields, deletionPolicy="Orphan"))
    await e2e_harness.phase("Ready")
    await e2e_harness.delete()
    await e2e_harness.gone("Instance")
    assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]
    (note,) = await events(e2e_harness, "Orphaned")
    assert "InstanceTerraform src-1" in note
    assert "InstanceKubernetes src-1" in note


async def test_g_c6_orphan_lets_a_stuck_teardown_go(e2e_harness: E2EHarness) -> None:
    await e2e_harness.apply(instance(**OFF))
    await e2e_harness.phase("Ready")
    e2e_harness.elsewhere.failing["terraform"] = "the credentials are gone"
    await e2e_harness.delete()
    await e2e_harness.until(
        "Instance", lambda seen: "the credentials are gone" in seen.status.message
    )
    await e2e_harness.edit("Instance", {"deletionPolicy": "Orphan"})
    await e2e_harness.gone("Instance")
    assert await e2e_harness.get("InstanceTerraform") is None


async def test_g_c6_a_stuck_teardown_is_repaired_on_the_instance(e2e_harness: E2EHarness) -> None:
    """Spec and annotations of the Instance reach the teardown; no other attempt has to be requested."""
    await e2e_harness.apply(instance(**OFF))
    await e2e_harness.phase("Ready")
    e2e_harness.elsewhere.failing["terraform"] = "module ./tpyo is not there"
    await e2e_harness.delete()
    await e2e_harness.until("Instance", lambda seen: "./tpyo" in seen.status.message)
    before = len(e2e_harness.elsewhere.started)
    await e2e_harness.annotate(missing_state="forget-1234abcd")
    await e2e_harness.until("Instance", lambda _: len(e2e_harness.elsewhere.started) > before)
    given = e2e_harness.elsewhere.started[-1].input
    assert given.annotations[MISSING_STATE] == "forget-1234abcd"
    await e2e_harness.idle()
    e2e_harness.elsewhere.failing.clear()
    module = {"source": "./typo"}
    await e2e_harness.edit("Instance", {"infrastructure": {"terraform": {"module": module}}})
    await e2e_harness.gone("Instance")
    given = e2e_harness.elsewhere.started[-1].input
    assert given.operation == "Teardown"
    assert given.spec["infrastructure"]["terraform"]["module"]["source"] == "./typo"


@pytest.mark.criterion("G-C1")
async def test_g_c1_a_lost_status_is_no_proof_that_nothing_was_built(
    e2e_harness: E2EHarness,
) -> None:
    e2e_harness.elsewhere.secret_outputs["terraform"] = {"kubeconfig": "k"}
    await e2e_harness.apply(instance(**OFF))
    await e2e_harness.phase("Ready")
    assert [each.input.built for each in e2e_harness.elsewhere.started[:2]] == [False, False]
    e2e_harness.elsewhere.runs.clear()
    lost: dict[str, Any] = dict.fromkeys(
        ("run", "history", "succeeded", "outputs", "outputsSecretName", "record")
    )
    await e2e_harness.say("InstanceTerraform", **lost)
    await e2e_harness.annotate(kind="InstanceTerraform", reconcile="now")
    await e2e_harness.until("Instance", lambda _: len(e2e_harness.elsewhere.started) > 3)
    given = next(
        each.input for each in e2e_harness.elsewhere.started[3:] if each.input.task == "terraform"
    )
    assert given.built


@pytest.mark.criterion("G-C1")
@pytest.mark.parametrize("kind", [InstanceTerraform, InstanceKubernetes])
async def test_g_c1_what_a_lost_status_showed_is_torn_down(
    e2e_harness: E2EHarness, kind: type[Resource[Any, Any]]
) -> None:
    """The provider has forgotten the runs as well; what the Instance has on record remains."""
    outside = e2e_harness.elsewhere
    outside.records |= {"terraform": {"place": "there"}, "kubernetes": {"cluster": "id-a"}}
    await e2e_harness.apply(instance(**OFF))
    await e2e_harness.phase("Ready")
    await e2e_harness.until("Instance", lambda seen: len(seen.status.records) > 1)
    await e2e_harness.stop_manager()
    outside.runs.clear()
    found = await e2e_harness.client.get(kind.mapping(), "src-1", namespace=NAMESPACE)
    wiped = {"status": dict.fromkeys(found["status"])}
    await e2e_harness.client.patch_status(kind, "src-1", wiped, namespace=NAMESPACE)
    await e2e_harness.delete()
    await e2e_harness.start_manager()
    await e2e_harness.gone("Instance")
    assert outside.tasks()[3:] == ["-invariants", "-kubernetes", "-terraform"]


@pytest.mark.criterion("G-C1")
async def test_g_c1_a_run_that_failed_may_have_built_something(e2e_harness: E2EHarness) -> None:
    e2e_harness.elsewhere.failing["terraform"] = "the process was killed"
    e2e_harness.elsewhere.held.add("terraform")
    await e2e_harness.apply(instance(**OFF))
    await e2e_harness.phase("Running")
    await e2e_harness.idle()
    e2e_harness.elsewhere.end("terraform")
    await e2e_harness.until(
        "Instance", lambda seen: "possiblyBuilt" in seen.status.records.get("InstanceTerraform", {})
    )
    e2e_harness.elsewhere.failing.clear()
    await e2e_harness.delete()
    await e2e_harness.gone("Instance")
    given = e2e_harness.elsewhere.started[-1].input
    assert (given.operation, given.record) == ("Teardown", {"possiblyBuilt": "true"})


@pytest.mark.criterion("S-P2")
@pytest.mark.criterion("S-P3")
async def test_a_teardown_that_needs_a_second_person_is_approved_by_nobody_else(
    e2e_harness: E2EHarness,
) -> None:
    """Not by a digest that no webhook recorded, nor by marks on what would go, nor by less protection."""
    await e2e_harness.apply(instance(**ON, requireApprovalBy={"group": "approvers"}))
    await e2e_harness.phase("Ready")
    await e2e_harness.until("Instance", lambda seen: seen.status.approvals is not None)
    for kind in ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants"):
        child = await e2e_harness.until(kind, lambda seen: seen.status.approvals is not None)
        assert '"group":"approvers"' in child.status.approvals.protection
        mark = {"metadata": {"annotations": {TEARDOWN_APPROVED: child.metadata.uid}}}
        await e2e_harness.client.patch(type(child), "src-1", mark, namespace=NAMESPACE)
    await e2e_harness.delete()
    message = await held(e2e_harness)
    assert "InstanceTerraform.cloud.ctrlruntime.dev" in message
    await e2e_harness.annotate(allow_delete=message.partition(f"{ALLOW}=")[2][:16])
    lower = {"spec": {"requireApprovalBy": None, "deletionProtection": False}}
    await e2e_harness.client.patch(Instance, "src-1", lower, namespace=NAMESPACE)

    def refused(seen: Resource[Any, Any]) -> bool:
        found = find_condition(seen.status.conditions, "ApprovalsCount")
        text = "" if found is None else found.message
        return "run the manager with --webhooks" in text and "spec.deletionProtection" in text

    await e2e_harness.until("Instance", refused)
    await e2e_harness.idle()
    assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]
