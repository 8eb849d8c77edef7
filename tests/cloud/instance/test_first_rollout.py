"""A first roll-out that has begun ends in its version: an upgrade follows, or a person decides."""

from __future__ import annotations

import pytest

from apis.cloud import Instance
from ctrlruntime.envtest.proxy import DropEvents, Match
from internal.cloud.labels import ALLOW_VERSION
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance
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
