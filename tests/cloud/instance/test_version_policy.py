"""Which changes of version an instance permits."""

from __future__ import annotations

import pytest

from apis.cloud import Instance, UpgradePolicy
from ctrlruntime.client.errors import Invalid
from internal.cloud.labels import ALLOW_VERSION
from internal.cloud.version_policy import version_problem
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance

pytestmark = pytest.mark.criterion("G-C5")


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ("5.1.0", "5.2.0", ""),
        ("5.2.0", "5.1.0", "older"),
        ("5.2.0", "5.2.0-rc.1", "older"),
        ("5.2.0-rc.1", "5.2.0", ""),
        ("5.2.0-rc.2", "5.2.0-rc.10", ""),
        ("5.2.0+a", "5.2.0+b", ""),
        ("v5.2.0", "5.2", ""),
        ("5.2", "v5.1", "older"),
        ("5.1.0", "5.3.0", "in steps"),
        ("5.9.0", "6.0.1", ""),
        ("5.9.0", "6.1.0", "in steps"),
        ("5.9.0", "7.0.0", "in steps"),
        ("5.1.0", "5.O.1", "no semantic version"),
        ("5.1.0", "latest", "no semantic version"),
        ("insiders", "5.1.0", ""),
        ("", "5.1.0", ""),
    ],
)
def test_versions_have_a_direction_and_a_distance(before: str, after: str, refused: str) -> None:
    policy = UpgradePolicy(max_minor_step=1)
    problem = version_problem(policy, before, after, {})
    assert bool(problem) == bool(refused)
    assert refused in problem
    assert not version_problem(policy, before, after, {ALLOW_VERSION: after})


def test_a_policy_may_permit_downgrades() -> None:
    assert not version_problem(UpgradePolicy(allow_downgrade=True), "5.2.0", "5.1.0", {})


@pytest.mark.parametrize("version", [" 5.1.0 ", "5.1.0 ", "", "5.1/0"])
async def test_a_text_that_is_no_version_is_refused_by_the_server(
    harness: InstanceHarness, version: str
) -> None:
    with pytest.raises(Invalid, match="version"):
        await harness.apply(instance(version=version))


@pytest.mark.parametrize(
    ("version", "status"),
    [("5.0.0", "kept"), ("5.O.1", "kept"), ("latest", "kept"), ("5.0.0", "lost")],
)
async def test_a_stored_version_that_is_refused_is_not_rolled_out(
    harness: InstanceHarness, version: str, status: str
) -> None:
    await harness.apply(instance())
    found = await harness.roll_out()
    if status == "lost":
        await harness.stop_manager()
        wiped = {"status": dict.fromkeys(found.status.to_wire())}
        await harness.client.patch_status(Instance, "src-1", wiped, namespace=NAMESPACE)
    await harness.edit("Instance", {"version": version})
    if status == "lost":
        await harness.start_manager()
    found = await harness.until("Instance", lambda item: item.status.phase == "Failed")
    assert ALLOW_VERSION in found.status.message
    assert not await harness.upgrades()
    patch = {"metadata": {"annotations": {ALLOW_VERSION: version}}}
    await harness.client.patch(Instance, "src-1", patch, namespace=NAMESPACE)
    assert await harness.upgrade(version)
