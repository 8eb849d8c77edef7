"""What every test shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ctrlruntime.client.config import Config
    from ctrlruntime.envtest.server import APIServer


@pytest.fixture(autouse=True, scope="session")
def _no_implicit_event_loop() -> None:
    """Keeps pytest-asyncio from creating a loop that nobody closes.

    Asked for the current loop after a synchronous test, the default policy makes one, and the
    warning about it fails the run. Once a loop (or none) was set, it raises instead.
    """
    asyncio.set_event_loop(None)


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    """An embedded API server, over plain HTTP, where everybody may do everything."""
    from ctrlruntime.envtest.server import APIServer, ServerOptions

    async with APIServer(ServerOptions()) as server:
        yield server


@pytest.fixture
def config(server: APIServer) -> Config:
    """How to reach :func:`server`."""
    from ctrlruntime.client.config import Config

    return Config(host=server.url)
