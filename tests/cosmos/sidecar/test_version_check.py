"""The version check: which height is made next, and whether the Pod has the version for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.cosmos import CosmosFullNode, CosmosFullNodeStatus
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Forbidden, NotFound
from ctrlruntime.client.status_client import StatusClient
from ctrlruntime.envtest.environment import Environment
from internal.cosmos.comet.client import NodeClient
from internal.cosmos.fullnode.plain_control import build_role_bindings, build_roles
from internal.cosmos.fullnode.service_account_builder import build_service_accounts
from internal.cosmos.sidecar.version_check import (
    Place,
    VersionCheck,
    WrongVersion,
    upgrade_height,
)
from tests.cosmos.builders.samples import node_set
from tests.support.waiting import eventually

from .rpc import Rpc, nobody, rpc_server

NAMESPACE = "default"
OLD, NEW = "chain:v1", "chain:v2"
VERSIONS = [{"height": 0, "image": OLD}, {"height": 100, "image": NEW}]


@pytest.fixture
async def admin() -> AsyncIterator[Client]:
    async with Environment(authorization="RBAC") as env:
        await env.install_crds(CosmosFullNode)
        yield env.client("admin")


def check_of(client: Client, home: Path, image: str = OLD, pod: str = "test-0") -> VersionCheck:
    """As the Pod would do it: with the rights of its own account alone."""
    account = client.impersonating(f"system:serviceaccount:{NAMESPACE}:test-vc-sa")
    place = Place(namespace=NAMESPACE, node_set="test", pod=pod, home=home, image=image)
    return VersionCheck(account, place)


async def made(client: Client, heights: dict[str, int] | None = None, **changes: object) -> None:
    """A set of nodes with what its Pods may do."""
    nodes = node_set(**{"chain__versions": VERSIONS, **changes})
    nodes.metadata.namespace = NAMESPACE
    await client.create(nodes)
    for item in (*build_service_accounts(nodes), *build_roles(nodes), *build_role_bindings(nodes)):
        await client.create(item.manifest, kind=item.mapping)
    if heights:
        await client.patch(
            CosmosFullNode,
            "test",
            {"status": {"height": heights}},
            namespace=NAMESPACE,
            subresource="status",
        )


async def heights(client: Client) -> dict[str, int]:
    found = await client.get(CosmosFullNode, "test", namespace=NAMESPACE)
    return dict(found.status.height)


async def version_of(client: Client) -> str | None:
    return (await client.get(CosmosFullNode, "test", namespace=NAMESPACE)).metadata.resource_version


def stopped_at(home: Path, height: object) -> Path:
    """The chain left word that it stopped."""
    (home / "data").mkdir(exist_ok=True)
    (home / "data" / "upgrade-info.json").write_text(json.dumps({"name": "v2", "height": height}))
    return home


@pytest.mark.parametrize(
    ("text", "height"),
    [
        ('{"name": "v2", "height": 100}', 100),
        ('{"name": "v2", "height": "100"}', 100),
        ('{"name": "v2"}', 0),
        ('{"height": -5}', 0),
        ('{"height": 1.5}', 0),
        ("[]", 0),
        ("{", 0),
        (None, 0),
    ],
)
def test_what_a_chain_leaves_when_it_stops(tmp_path: Path, text: str | None, height: int) -> None:
    (tmp_path / "data").mkdir()
    if text is not None:
        (tmp_path / "data" / "upgrade-info.json").write_text(text)
    assert upgrade_height(tmp_path) == height


@pytest.mark.criterion("COSMOS-A8-2")
async def test_a_pod_with_the_wrong_version_does_not_start_its_node(
    admin: Client, tmp_path: Path
) -> None:
    await made(admin, {"test-0": 90, "test-1": 7})
    assert OLD in await check_of(admin, tmp_path).before_start()
    stopped_at(tmp_path, 100)
    with pytest.raises(WrongVersion, match=f"100 wants {NEW}, and this Pod has {OLD}"):
        await check_of(admin, tmp_path).before_start()
    assert await heights(admin) == {"test-0": 100, "test-1": 7}
    before = await version_of(admin)
    assert NEW in await check_of(admin, tmp_path, NEW).before_start()
    assert await version_of(admin) == before


async def test_what_is_known_of_a_node_counts_without_a_word_of_its_chain(
    admin: Client, tmp_path: Path
) -> None:
    await made(admin, {"test-0": 150})
    with pytest.raises(WrongVersion):
        await check_of(admin, tmp_path).before_start()
    stopped_at(tmp_path, 100)
    await check_of(admin, tmp_path, NEW).before_start()
    assert await heights(admin) == {"test-0": 150}


async def test_an_image_of_the_node_or_no_version_for_its_height_keeps_nothing_from_starting(
    admin: Client, tmp_path: Path
) -> None:
    override = {"test-1": {"image": "debug:v9"}}
    await made(admin, chain__versions=VERSIONS[1:], instanceOverrides=override)
    await check_of(admin, tmp_path, "anything:v1").before_start()
    stopped_at(tmp_path, 100)
    await check_of(admin, tmp_path, "debug:v9", "test-1").before_start()
    with pytest.raises(WrongVersion, match="wants debug:v9"):
        await check_of(admin, tmp_path, NEW, "test-1").before_start()


@pytest.mark.criterion("COSMOS-A8-2")
async def test_a_running_node_reports_a_height_only_where_it_decides_on_something(
    admin: Client, tmp_path: Path
) -> None:
    await made(admin)
    nodes = NodeClient(deadline=60)
    check = check_of(admin, tmp_path)
    async with rpc_server() as node:
        node.height = 41
        assert await check.look(nodes, node.address) == 42
        assert await heights(admin) == {"test-0": 42}
        before = await version_of(admin)
        node.height = 98
        assert await check.look(nodes, node.address) == 99
        assert await version_of(admin) == before
        node.height = 99
        assert await check.look(nodes, node.address) == 100
        assert await heights(admin) == {"test-0": 100}
    await nodes.close()


async def test_a_node_that_stopped_is_known_by_its_files(admin: Client, tmp_path: Path) -> None:
    await made(admin, {"test-0": 95})
    nodes = NodeClient(deadline=60)
    check, gone = check_of(admin, tmp_path), nobody()
    assert await check.look(nodes, gone) == 0
    stopped_at(tmp_path, 100)
    assert await check.look(nodes, gone) == 100
    assert await heights(admin) == {"test-0": 100}
    await nodes.close()


@pytest.mark.criterion("COSMOS-A10-383")
async def test_what_others_write_meanwhile_is_not_lost(admin: Client, tmp_path: Path) -> None:
    await made(admin)
    statuses = StatusClient(admin, CosmosFullNode, field_manager="others", attempts=30)

    async def others(number: int) -> None:
        def update(status: CosmosFullNodeStatus) -> None:
            status.height = {**status.height, f"test-{number}": number}

        await statuses.sync_update("test", update, namespace=NAMESPACE)

    stopped_at(tmp_path, 50)
    await asyncio.gather(
        check_of(admin, tmp_path).before_start(), *(others(number) for number in range(1, 6))
    )
    assert await heights(admin) == {"test-0": 50, **{f"test-{n}": n for n in range(1, 6)}}


async def test_the_rights_of_a_pod_are_for_its_own_set(admin: Client, tmp_path: Path) -> None:
    await made(admin)
    other = node_set(name="other")
    other.metadata.namespace = NAMESPACE
    await admin.create(other)
    account = admin.impersonating(f"system:serviceaccount:{NAMESPACE}:test-vc-sa")
    place = Place(namespace=NAMESPACE, node_set="other", pod="p", home=tmp_path, image=OLD)
    with pytest.raises(Forbidden):
        await VersionCheck(account, place).before_start()
    with pytest.raises(Forbidden):
        await account.patch(CosmosFullNode, "test", {"spec": {"replicas": 9}}, namespace=NAMESPACE)


async def test_looking_ends_with_its_set_and_outlives_a_node_that_is_silent(
    admin: Client, tmp_path: Path
) -> None:
    await made(admin)
    nodes = NodeClient(deadline=60)
    async with rpc_server() as node:
        looking = asyncio.create_task(
            check_of(admin, tmp_path).keep_looking(nodes, node.address, seconds=0.02)
        )
        node.broken = True
        await _reported(admin, node, 10)
        node.broken, node.height = False, 149
        await _until(admin, {"test-0": 150})
        await admin.delete(CosmosFullNode, "test", namespace=NAMESPACE)
        await asyncio.wait_for(looking, 60)
        with pytest.raises(NotFound):
            await heights(admin)
    await nodes.close()


async def _reported(client: Client, node: Rpc, questions: int) -> None:
    """Wait until the node has been asked some times."""
    await eventually(lambda: node.asked >= questions)
    assert await heights(client) == {}


async def _until(client: Client, wanted: dict[str, int]) -> None:
    await eventually(lambda: heights(client), lambda found: found == wanted)
