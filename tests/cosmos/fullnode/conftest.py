"""One harness for the tests of a module, and a place of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cosmos.fullnode.harness import NodeSetHarness, Place


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NodeSetHarness]:
    async with NodeSetHarness.start(tmp_path_factory.mktemp("node-sets")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def place(harness: NodeSetHarness) -> AsyncIterator[Place]:
    made = await harness.place()
    yield made
    await made.clear()
