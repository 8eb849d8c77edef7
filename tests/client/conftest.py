"""A client of an API server, embedded and real, with the requests it made."""

from collections.abc import AsyncGenerator

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.server import APIServer, ServerOptions
from tests.client.support import Seen, install_widgets


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
    await install_widgets(client)
