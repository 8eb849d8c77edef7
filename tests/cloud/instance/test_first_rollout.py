"""A first roll-out that has begun ends in its version: an upgrade follows, or a person decides."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apis.cloud import FleetRollout, FleetRolloutSpec, Instance
from ctrlruntime.api import find_condition
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.envtest.proxy import DropEvents, Match
from ctrlruntime.rollout import ChangeKind
from internal.cloud.labels import ALLOW_VERSION
from internal.cloud.rollouts.members import fleet_instance, fleet_of
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance
from tests.cloud.rollouts.test_instances import assign, record
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("SIM-F6")


def changes(harness: E2EHarness) -> list[str]:
    """Each roll-out and each upgrade that was started, in order: `kubernetes 5.1.0`."""
    given = [item.input for item in harness.elsewhere.started]
    return [
        f"{each.task} {each.spec.get('version') or each.spec['toVersion']}"
        for each in given
        if each.task in ("kubernetes", "upgrade")
    ]


async def begin(harness: E2EHarness) -> None:
    """Create an instance, up to the run of its first roll-out."""
    harness.elsewhere.held.add("kubernetes")
    await harness.apply(instance())
    await harness.until("Instance", lambda found: found.status.task.startswith("kubernetes-"))


@pytest.mark.parametrize("unseen", [False, True])
async def test_another_version_waits_for_the_first_roll_out_and_is_upgraded_to(
    e2e_harness: E2EHarness, unseen: bool
) -> None:
    """`unseen`: version and end of the run come while no manager is there."""
    await begin(e2e_harness)
    if unseen:
        await e2e_harness.stop_manager()
    await e2e_harness.edit("Instance", {"version": "5.3.0"})
    if not unseen:
        held = await e2e_harness.until("Instance", lambda item: "5.3.0" in item.status.message)
        assert f"{ALLOW_VERSION}=5.3.0" in held.status.message
        assert (held.status.version, changes(e2e_harness)) == ("", ["kubernetes 5.1.0"])
    e2e_harness.elsewhere.end("kubernetes")
    if unseen:
        await e2e_harness.start_manager()
    ready = await e2e_harness.phase("Ready")
    assert ready.status.version == "5.3.0"
    assert changes(e2e_harness) == ["kubernetes 5.1.0", "upgrade 5.3.0", "kubernetes 5.3.0"]


@pytest.mark.parametrize(
    ("end", "reports", "begun"),
    [
        ("failed", {"record:version": "5.1.0"}, True),
        ("failed", {}, False),
        ("cancelled", {}, True),
        ("lost", {}, True),
    ],
)
async def test_a_first_roll_out_that_did_not_succeed_is_given_up_by_a_person_unless_it_wrote_nothing(
    e2e_harness: E2EHarness, end: str, reports: dict[str, str], begun: bool
) -> None:
    await begin(e2e_harness)
    outside = e2e_harness.elsewhere
    outside.reports["kubernetes"] = reports
    outside.failing["kubernetes"] = "it does not start"
    run = outside.started[-1]
    if end == "lost":
        await e2e_harness.stop_manager()
        await outside.delete(run.input.owner, run.run_id)
        await e2e_harness.start_manager()
    elif end == "cancelled":
        await e2e_harness.annotate(kind="InstanceKubernetes", cancel=run.run_id)
    else:
        outside.end("kubernetes")
    await e2e_harness.until("InstanceKubernetes", lambda item: item.status.run.state == "Done")
    await e2e_harness.edit("Instance", {"version": "5.0.0"})
    if begun:
        await e2e_harness.until("Instance", lambda item: "5.0.0 waits" in item.status.message)
        await e2e_harness.idle()
        assert set(changes(e2e_harness)) == {"kubernetes 5.1.0"}
        outside.failing.clear()
        patch = {"metadata": {"annotations": {ALLOW_VERSION: "5.0.0"}}}
        await e2e_harness.client.patch(Instance, "src-1", patch, namespace=NAMESPACE)
    outside.failing.clear()
    outside.end("kubernetes")
    ready = await e2e_harness.phase("Ready")
    assert ready.status.version == "5.0.0"
    assert not await e2e_harness.upgrades()


async def test_a_version_that_no_run_has_begun_with_is_replaced_unless_one_begins_meanwhile(
    harness: InstanceHarness,
) -> None:
    await harness.apply(instance())
    await harness.carry_out("InstanceTerraform")
    await harness.there("InstanceKubernetes")
    await harness.edit("Instance", {"version": "5.2.0"})
    await harness.until("InstanceKubernetes", lambda item: item.spec.version == "5.2.0")
    unseen = Match(user="manager", resource="instancekubernetes.*")
    rule = harness.environment.proxy.add(DropEvents(), unseen, times=None)
    await harness.begin("InstanceKubernetes")
    start = harness.mark()
    await harness.edit("Instance", {"version": "5.3.0"})
    await eventually(lambda: [each for each in harness.writes(start) if each.code == 409])
    harness.environment.proxy.remove(rule)
    await harness.say("InstanceKubernetes", message="on its way")
    await harness.until("Instance", lambda item: "5.3.0 waits" in item.status.message)
    assert (await harness.read("InstanceKubernetes")).spec.version == "5.2.0"


@pytest.mark.criterion("C-21")
async def test_c_21_a_rollout_that_goes_back_over_a_failed_first_roll_out_waits_for_a_person(
    e2e_harness: E2EHarness,
) -> None:
    """The spec has 5.1.0; a rollout gave 5.2.0 before anything began, and takes that back."""
    outside = e2e_harness.elsewhere
    outside.held.add("terraform")
    await e2e_harness.apply(instance())
    await e2e_harness.until("Instance", lambda found: found.status.task.startswith("terraform-"))
    await assign(e2e_harness, record("5.2.0"))
    await e2e_harness.until("Instance", lambda found: found.status.assigned_version is not None)
    outside.reports["kubernetes"] = {"record:version": "5.2.0"}
    outside.failing["kubernetes"] = "it does not start"
    outside.end("terraform")
    await e2e_harness.until("Instance", lambda found: found.status.phase == "Failed")
    await assign(e2e_harness, record("5.1.0", kind=ChangeKind.ROLLBACK))
    found = await e2e_harness.until(
        "Instance", lambda seen: find_condition(seen.status.conditions, "VersionHeld") is not None
    )
    condition = find_condition(found.status.conditions, "VersionHeld")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "FirstRollOut")
    assert "5.1.0 waits until the first roll-out of 5.2.0 has succeeded" in condition.message
    command = f"src-1 -n {NAMESPACE} --overwrite {ALLOW_VERSION}=5.1.0`"
    assert command in condition.message
    await e2e_harness.idle()
    assert set(changes(e2e_harness)) == {"kubernetes 5.2.0"}

    entry = EntryDecoder(Instance.gvk()).decode_manifest(found.to_manifest())
    spec = FleetRolloutSpec(target_version="5.2.0")
    fleet = fleet_of("monthly", spec, [fleet_instance(entry)], [], datetime.now(UTC))
    assert [member.held for member in fleet.members] == [True]
    assert [text for text in fleet.decisions if command in text] == list(fleet.decisions) != []

    outside.failing.clear()
    patch = {"metadata": {"annotations": {ALLOW_VERSION: "5.1.0"}}}
    await e2e_harness.client.patch(Instance, "src-1", patch, namespace=NAMESPACE)
    ready = await e2e_harness.phase("Ready")
    assert ready.status.version == "5.1.0"
    assert find_condition(ready.status.conditions, "VersionHeld") is None


@pytest.mark.criterion("C-21")
async def test_c_21_a_rollout_leaves_an_instance_whose_first_roll_out_failed(
    e2e_harness: E2EHarness,
) -> None:
    await begin(e2e_harness)
    e2e_harness.elsewhere.failing["kubernetes"] = "it does not start"
    e2e_harness.elsewhere.end("kubernetes")
    await e2e_harness.until("Instance", lambda found: found.status.phase == "Failed")
    manifest = {
        "apiVersion": FleetRollout.gvk().api_version,
        "kind": "FleetRollout",
        "metadata": {"name": "monthly", "namespace": NAMESPACE},
        "spec": {"targetVersion": "5.2.0"},
    }
    await e2e_harness.apply(manifest)

    async def message() -> str:
        found = await e2e_harness.client.get(FleetRollout, "monthly", namespace=NAMESPACE)
        return found.status.message

    expected = "its first roll-out has not succeeded, its phase is Failed"
    await eventually(message, lambda text: expected in text)
    assert set(changes(e2e_harness)) == {"kubernetes 5.1.0"}
