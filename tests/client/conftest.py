"""A client of an API server, embedded and real, with the requests it made."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists, NotFound
from ctrlruntime.envtest.server import APIServer, ServerOptions
from tests.client.support import Seen, Widget, widget_crd


@pytest.fixture
async def server() -> AsyncGenerator[APIServer, None]:
    async with APIServer(ServerOptions()) as server:
        yield server


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
async def client(api_config: Config, seen: Seen) -> AsyncGenerator[Client, None]:
    async with Client.connect(api_config, observer=seen) as client:
        yield client


@pytest.fixture
async def widgets(client: Client) -> None:
    """The CRD of Widget is installed and served; on the shared server it stays."""
    try:
        await client.create(widget_crd())
    except AlreadyExists:
        return
    async with asyncio.timeout(10.0):
        while True:
            try:
                await client.list(Widget, "default")
            except NotFound:
                await asyncio.sleep(0.01)
            else:
                return
