"""A client of the embedded API server, with the requests it made."""

from collections.abc import AsyncGenerator

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.server import APIServer, ServerOptions
from tests.client.support import Seen, widget_crd


@pytest.fixture
async def server() -> AsyncGenerator[APIServer, None]:
    async with APIServer(ServerOptions()) as server:
        yield server


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
async def client(server: APIServer, seen: Seen) -> AsyncGenerator[Client, None]:
    async with Client.connect(Config(host=server.url), observer=seen) as client:
        yield client


@pytest.fixture
async def widgets(client: Client) -> None:
    """The CRD of Widget is installed and served."""
    await client.create(widget_crd())
    await _served(client)


async def _served(client: Client) -> None:
    import asyncio

    from ctrlruntime.client.errors import NotFound
    from tests.client.support import Widget

    async with asyncio.timeout(10.0):
        while True:
            try:
                await client.list(Widget, "default")
            except NotFound:
                await asyncio.sleep(0.01)
            else:
                return
