"""Fixtures of the tenancy tests: a private database, a renderer, registries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from internal.tenancy.rendering import Renderer
from tests.mariadb import MariaDB
from tests.tenancy.world import World


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB.start() as database:
        yield database


@pytest.fixture
async def renderer() -> AsyncIterator[Renderer]:
    made = Renderer()
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """One world for all tests of a module, each in a namespace of its own (see Fleet)."""
    async with World.start(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world_with_nodes(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[World]:
    """The same with simulated nodes that run Pods."""
    async with World.start(tmp_path_factory.mktemp("world"), nodes=True, pods=True) as world:
        yield world
