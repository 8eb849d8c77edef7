"""CRDs that are deleted: disks, keys and Pods of a set stay without approval (H-A9)."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import GROUP, CosmosFullNode
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import AlreadyExists
from ctrlruntime.envtest.eventually import eventually_gone, eventually_holds
from ctrlruntime.envtest.users import administrator
from internal.cosmos.labels import APPROVE_DELETION, FINALIZER
from tests.backends import SharedServer
from tests.cosmos.fullnode.harness import (
    CLAIM,
    KINDS,
    NAME,
    PATIENCE,
    POD,
    SECRET,
    SERVICE,
    NodeSetHarness,
    Place,
    _storage_class,
)
from tests.cosmos.servers.comet import CometNodes
from tests.limits import CRD_SECONDS

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
CRDS = [f"{kind.mapping().plural}.{GROUP}" for kind in KINDS]
OWNED = (CLAIM, SECRET, POD, SERVICE)

pytestmark = pytest.mark.criterion("H-A9")


@contextlib.asynccontextmanager
async def on_real_server(server: SharedServer, folder: Path) -> AsyncIterator[NodeSetHarness]:
    """A harness on the shared server, whose manager is an administrator."""
    environment = server.environment(
        users=(administrator("envtest"), administrator("manager")),
        proxy=True,
        nodes=True,
        folder=folder,
    )
    async with environment as env, CometNodes.start(env.client("envtest")) as comet:
        await env.install_crds(*KINDS)
        with contextlib.suppress(AlreadyExists):
            await env.client("envtest").create(_storage_class("standard", True))
        harness = NodeSetHarness(env, folder, comet)
        await harness.start_manager()
        try:
            yield harness
            await env.install_crds(*KINDS)
            await delete_crds(harness)
        finally:
            await harness.stop_manager()


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A set that works, in a namespace of its own."""
    if request.param == "embedded":
        started = NodeSetHarness.start(tmp_path)
    else:
        started = on_real_server(request.getfixturevalue("real_server"), tmp_path)
    async with started as harness:
        name = f"uninstall-{secrets.token_hex(4)}"
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await harness.client.create(manifest)
        made = Place(harness, name)
        await made.apply(made.node_set())
        await made.settled()
        yield made


async def delete_crds(harness: NodeSetHarness, *, approved: bool = False) -> None:
    """`kubectl delete crd`, and wait until they are gone."""
    if approved:
        patch = {"metadata": {"annotations": {APPROVE_DELETION: "true"}}}
        for name in CRDS:
            await harness.client.patch(CRD, name, patch, type=PatchType.MERGE)
    for name in CRDS:
        await harness.client.delete(CRD, name)
    for name in CRDS:
        await eventually_gone(harness.client, CRD, name, timeout=CRD_SECONDS)


async def metadata(place: Place) -> dict[str, dict[str, Any]]:
    """What a set owns, by kind and name, without what is being deleted."""
    found = {}
    for kind in OWNED:
        for item in await place.client.list(kind, place.namespace):
            each = item["metadata"]
            if "deletionTimestamp" not in each and each["name"] != "default":
                found[f"{kind.gvk.kind} {each['name']}"] = each
    return found


async def uids(place: Place) -> dict[str, str]:
    return {name: each["uid"] for name, each in (await metadata(place)).items()}


async def none_left(place: Place) -> None:
    async def is_empty() -> bool:
        return not await metadata(place)

    await eventually_holds(is_empty, timeout=PATIENCE, interval=0.1)


@pytest.mark.criterion("COSMOS-A8-7")
async def test_h_a9_deleting_the_crds_deletes_no_object_of_a_set(place: Place) -> None:
    before = await uids(place)
    assert {name.partition(" ")[0] for name in before} == {kind.gvk.kind for kind in OWNED}
    await delete_crds(place.harness)
    after = await metadata(place)
    assert {name: each["uid"] for name, each in after.items()} == before
    assert [name for name, each in after.items() if each.get("ownerReferences")] == []

    await place.harness.stop_manager()
    await place.harness.environment.install_crds(*KINDS)
    await place.harness.start_manager()
    await place.apply(place.node_set())
    await place.settled()
    found = await metadata(place)
    assert {name: each["uid"] for name, each in found.items()} == before, "nothing is recreated"
    assert [name for name, each in found.items() if not each.get("ownerReferences")] == []


async def test_h_a9_with_the_approval_nothing_is_released(place: Place) -> None:
    """The garbage collector decides: it follows owners of a kind that is gone late or never."""
    await delete_crds(place.harness, approved=True)
    left = await metadata(place)
    assert [name for name, each in left.items() if not each.get("ownerReferences")] == []


async def test_h_a9_a_set_that_is_deleted_takes_its_objects_along(place: Place) -> None:
    await place.edit(deletionProtection=False)
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
    await place.gone()
    await none_left(place)


async def test_h_a9_a_set_of_an_older_manager_gets_the_finalizer_and_rolls_no_pod(
    place: Place,
) -> None:
    before = await uids(place)
    await place.harness.stop_manager()
    patch = {"metadata": {"finalizers": None}}
    await place.client.patch(
        CosmosFullNode, NAME, patch, namespace=place.namespace, type=PatchType.MERGE
    )
    await place.harness.start_manager()
    await place.until(lambda found: FINALIZER in (found.metadata.finalizers or ()))
    await place.settled()
    await place.polled()
    assert await uids(place) == before
