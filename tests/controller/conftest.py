"""An embedded API server for tests of controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ctrlruntime.client.config import Config
from ctrlruntime.envtest.server import APIServer, ServerOptions


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    async with APIServer(ServerOptions()) as server:
        yield server


@pytest.fixture
def config(server: APIServer) -> Config:
    return Config(host=server.url)
