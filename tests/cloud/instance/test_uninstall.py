"""CRDs that are deleted: without approval nothing that an Instance made is torn down (H-A9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import GROUP, FleetRollout
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest.eventually import eventually_gone
from ctrlruntime.envtest.users import administrator
from tests.backends import SharedServer
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import BY_NAME, KINDS, instance
from tests.limits import CRD_SECONDS

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
PROTECTED: dict[str, Any] = {"debug": {"enableDeletionProtection": True}}
ALL = tuple(BY_NAME)
ROLLOUTS = f"{FleetRollout.mapping().plural}.{GROUP}"
TASKS = ["terraform", "kubernetes", "invariants"]
TIMEOUT = 90.0

pytestmark = pytest.mark.criterion("H-A9")


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def e2e_harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[E2EHarness]:
    """The rights of the manager are those of its role on the embedded server."""
    if request.param == "embedded":
        async with E2EHarness.start(tmp_path) as made:
            yield made
        return
    server: SharedServer = request.getfixturevalue("real_server")
    users = (administrator("envtest"), administrator("manager"))
    async with server.environment(users=users, proxy=True, folder=tmp_path) as environment:
        await environment.install_crds(*KINDS, FleetRollout)
        e2e_harness = E2EHarness(environment, tmp_path)
        await e2e_harness.start_manager()
        try:
            yield e2e_harness
            await reinstall(e2e_harness)
            await delete_crds(e2e_harness, ALL)
        finally:
            await e2e_harness.stop_manager()
            await e2e_harness.client.delete(CRD, ROLLOUTS)
            await eventually_gone(e2e_harness.client, CRD, ROLLOUTS, timeout=CRD_SECONDS)


def crd(kind: str) -> str:
    return f"{BY_NAME[kind].mapping().plural}.{GROUP}"


async def delete_crds(
    e2e_harness: E2EHarness, kinds: Iterable[str], *, approved: bool = False
) -> None:
    """`kubectl delete crd`, and wait until they are gone."""
    names = [crd(kind) for kind in kinds]
    if approved:
        patch = {"metadata": {"annotations": {f"{GROUP}/approve-deletion": "true"}}}
        for name in names:
            await e2e_harness.client.patch(CRD, name, patch, type=PatchType.MERGE)
    for name in names:
        await e2e_harness.client.delete(CRD, name)
    for name in names:
        try:
            await eventually_gone(e2e_harness.client, CRD, name, timeout=CRD_SECONDS)
        except AssertionError as error:
            error.add_note((e2e_harness.folder / "manager.log").read_text()[-20_000:])
            raise


async def reinstall(e2e_harness: E2EHarness) -> None:
    """`kubectl apply -f install.yaml`, and a manager that was restarted."""
    await e2e_harness.stop_manager()
    await e2e_harness.environment.install_crds(*KINDS)
    await e2e_harness.start_manager()


def teardowns(e2e_harness: E2EHarness) -> list[str]:
    return [task for task in e2e_harness.elsewhere.tasks() if task.startswith("-")]


@pytest.mark.parametrize(
    "kinds",
    [ALL, ("Instance",), ("InstanceTerraform",)],
    ids=["all", "instances", "subresources"],
)
async def test_h_a9_deleting_the_crds_tears_nothing_down(
    e2e_harness: E2EHarness, kinds: tuple[str, ...]
) -> None:
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    await delete_crds(e2e_harness, kinds)
    await reinstall(e2e_harness)
    await e2e_harness.apply(instance())
    await e2e_harness.there("InstanceTerraform", timeout=TIMEOUT)
    await e2e_harness.phase("Ready")
    assert teardowns(e2e_harness) == []


async def test_h_a9_with_the_approval_everything_is_torn_down(e2e_harness: E2EHarness) -> None:
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    await delete_crds(e2e_harness, ALL, approved=True)
    assert sorted(teardowns(e2e_harness)) == ["-invariants", "-kubernetes", "-terraform"]


async def test_h_a9_a_teardown_under_way_is_the_last(e2e_harness: E2EHarness) -> None:
    """Somebody deleted the Instance before: what is under way is awaited, and nothing follows."""
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    e2e_harness.elsewhere.held.add("invariants")
    await e2e_harness.delete()
    await e2e_harness.until(
        "InstanceInvariants",
        lambda _found: teardowns(e2e_harness) == ["-invariants"],
        timeout=TIMEOUT,
    )
    deletion = asyncio.create_task(delete_crds(e2e_harness, ALL))
    await e2e_harness.gone("InstanceTerraform", timeout=TIMEOUT)
    e2e_harness.elsewhere.end("invariants")
    await deletion
    assert teardowns(e2e_harness) == ["-invariants"]


async def test_h_a9_what_was_held_is_released(e2e_harness: E2EHarness) -> None:
    """A protected Instance that was deleted waits for approval; its CRD that goes must not."""
    await e2e_harness.apply(instance(**PROTECTED))
    await e2e_harness.phase("Ready")
    await e2e_harness.delete()
    await e2e_harness.phase("Deleting")
    await e2e_harness.delete(kind="InstanceTerraform")
    await e2e_harness.until(
        "InstanceTerraform", lambda found: "held back" in found.status.message, timeout=TIMEOUT
    )
    await e2e_harness.idle()
    await delete_crds(e2e_harness, ["Instance"])
    await e2e_harness.gone("InstanceTerraform", timeout=TIMEOUT)
    assert e2e_harness.elsewhere.tasks() == TASKS


async def test_h_a9_a_kind_that_went_before_the_first_task_blocks_no_other(
    e2e_harness: E2EHarness,
) -> None:
    """The limiter reads every kind once, before the first task: a CRD that is gone has no objects."""
    await delete_crds(e2e_harness, ["UpgradeInstanceTask"])
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    assert e2e_harness.elsewhere.tasks() == TASKS
