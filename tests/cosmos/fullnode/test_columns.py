"""Columns of kubectl for node sets: a count of zero is printed as 0."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from apis.cosmos import CosmosFullNode
from tests.cosmos.fullnode.harness import NAME, NodeSetHarness, Place
from tests.support.kubectl_columns import printed

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NodeSetHarness]:
    """A server with TLS: without it kubectl sends no token."""
    async with NodeSetHarness.start(tmp_path_factory.mktemp("columns"), tls=True) as made:
        yield made


async def test_15_4_kubectl_get_prints_ready_desired_phase_and_message(place: Place) -> None:
    environment = place.harness.environment
    await place.apply(place.node_set(replicas=0))
    empty = await place.settled()
    shown = await printed(environment, CosmosFullNode, NAME, place.namespace)
    assert (shown["READY"], shown["DESIRED"]) == ("0", "0")
    assert (shown["PHASE"], shown["MESSAGE"]) == (empty.status.phase, empty.status.status)
    await place.edit(replicas=2)
    full = (await place.settled()).status
    shown = await printed(environment, CosmosFullNode, NAME, place.namespace)
    assert (shown["READY"], shown["DESIRED"], shown["REASON"]) == ("2", "2", "InSync")
    assert shown["VERSION"] == full.version == "v1"
    assert int(shown["HEIGHT"]) >= (full.last_block or 1)
