"""One world for the tests of a module, and a place of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cosmos.fullnode.harness import Place, World


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with World.start(tmp_path_factory.mktemp("node-sets")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def place(world: World) -> AsyncIterator[Place]:
    made = await world.place()
    yield made
    await made.clear()
