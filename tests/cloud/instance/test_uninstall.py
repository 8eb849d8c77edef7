"""CRDs that are deleted: without approval nothing that an Instance made is torn down (H-A9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import GROUP
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest.eventually import eventually_gone
from ctrlruntime.envtest.users import administrator
from tests.backends import SharedServer
from tests.cloud.instance.e2e_harness import Theatre
from tests.cloud.instance.harness import BY_NAME, KINDS, instance
from tests.limits import CRD_SECONDS

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
PROTECTED: dict[str, Any] = {"debug": {"enableDeletionProtection": True}}
ALL = tuple(BY_NAME)
TASKS = ["terraform", "kubernetes", "invariants"]
TIMEOUT = 90.0

pytestmark = pytest.mark.criterion("H-A9")


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def theatre(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Theatre]:
    """The rights of the manager are those of its role on the embedded server."""
    if request.param == "embedded":
        async with Theatre.start(tmp_path) as made:
            yield made
        return
    server: SharedServer = request.getfixturevalue("real_server")
    users = (administrator("envtest"), administrator("manager"))
    async with server.environment(users=users, proxy=True, folder=tmp_path) as environment:
        await environment.install_crds(*KINDS)
        theatre = Theatre(environment, tmp_path)
        await theatre.start_manager()
        try:
            yield theatre
            await reinstall(theatre)
            await delete_crds(theatre, ALL)
        finally:
            await theatre.stop_manager()


def crd(kind: str) -> str:
    return f"{BY_NAME[kind].mapping().plural}.{GROUP}"


async def delete_crds(theatre: Theatre, kinds: Iterable[str], *, approved: bool = False) -> None:
    """`kubectl delete crd`, and wait until they are gone."""
    names = [crd(kind) for kind in kinds]
    if approved:
        patch = {"metadata": {"annotations": {f"{GROUP}/approve-deletion": "true"}}}
        for name in names:
            await theatre.client.patch(CRD, name, patch, type=PatchType.MERGE)
    for name in names:
        await theatre.client.delete(CRD, name)
    for name in names:
        try:
            await eventually_gone(theatre.client, CRD, name, timeout=CRD_SECONDS)
        except AssertionError as error:
            error.add_note((theatre.folder / "manager.log").read_text()[-20_000:])
            raise


async def reinstall(theatre: Theatre) -> None:
    """`kubectl apply -f install.yaml`, and a manager that was restarted."""
    await theatre.stop_manager()
    await theatre.environment.install_crds(*KINDS)
    await theatre.start_manager()


def teardowns(theatre: Theatre) -> list[str]:
    return [task for task in theatre.elsewhere.tasks() if task.startswith("-")]


@pytest.mark.parametrize(
    "kinds",
    [ALL, ("Instance",), ("InstanceTerraform",)],
    ids=["all", "instances", "subresources"],
)
async def test_h_a9_deleting_the_crds_tears_nothing_down(
    theatre: Theatre, kinds: tuple[str, ...]
) -> None:
    await theatre.apply(instance())
    await theatre.phase("Ready")
    await delete_crds(theatre, kinds)
    await reinstall(theatre)
    await theatre.apply(instance())
    await theatre.there("InstanceTerraform", timeout=TIMEOUT)
    await theatre.phase("Ready")
    assert teardowns(theatre) == []


async def test_h_a9_with_the_approval_everything_is_torn_down(theatre: Theatre) -> None:
    await theatre.apply(instance())
    await theatre.phase("Ready")
    await delete_crds(theatre, ALL, approved=True)
    assert sorted(teardowns(theatre)) == ["-invariants", "-kubernetes", "-terraform"]


async def test_h_a9_a_teardown_under_way_is_the_last(theatre: Theatre) -> None:
    """Somebody deleted the Instance before: what is under way is awaited, and nothing follows."""
    await theatre.apply(instance())
    await theatre.phase("Ready")
    theatre.elsewhere.held.add("invariants")
    await theatre.delete()
    await theatre.until(
        "InstanceInvariants", lambda _found: teardowns(theatre) == ["-invariants"], timeout=TIMEOUT
    )
    deletion = asyncio.create_task(delete_crds(theatre, ALL))
    await theatre.gone("InstanceTerraform", timeout=TIMEOUT)
    theatre.elsewhere.end("invariants")
    await deletion
    assert teardowns(theatre) == ["-invariants"]


async def test_h_a9_what_was_held_is_released(theatre: Theatre) -> None:
    """A protected Instance that was deleted waits for approval; its CRD that goes must not."""
    await theatre.apply(instance(**PROTECTED))
    await theatre.phase("Ready")
    await theatre.delete()
    await theatre.phase("Deleting")
    await theatre.delete(kind="InstanceTerraform")
    await theatre.until(
        "InstanceTerraform", lambda found: "held back" in found.status.message, timeout=TIMEOUT
    )
    await theatre.idle()
    await delete_crds(theatre, ["Instance"])
    await theatre.gone("InstanceTerraform", timeout=TIMEOUT)
    assert theatre.elsewhere.tasks() == TASKS


async def test_h_a9_a_kind_that_went_before_the_first_task_blocks_no_other(
    theatre: Theatre,
) -> None:
    """The limiter reads every kind once, before the first task: a CRD that is gone has no objects."""
    await delete_crds(theatre, ["UpgradeInstanceTask"])
    await theatre.apply(instance())
    await theatre.phase("Ready")
    assert theatre.elsewhere.tasks() == TASKS
