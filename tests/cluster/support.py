"""API servers, their objects, and a record of what was reconciled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.controller import Request
from ctrlruntime.envtest.server import APIServer, ServerOptions
from tests.manager.support import CONFIG_MAP, LONG

LABELS = {"test": "clusters"}


@contextlib.asynccontextmanager
async def servers(count: int) -> AsyncIterator[list[Config]]:
    """API servers in memory, one for each cluster."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            Config(host=(await stack.enter_async_context(APIServer(ServerOptions()))).url)
            for _ in range(count)
        ]


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[Config]:
    """A server that takes connections and requests, and never answers."""
    writers: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError):
            while await reader.read(65536):
                pass

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield Config(host=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    finally:
        server.close()
        for writer in writers:
            writer.close()


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap that the tests' controllers select."""
    metadata = {"name": name, "namespace": "default", "labels": LABELS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def create(config: Config, *manifests: dict[str, Any]) -> None:
    """Create objects, by a client of their own."""
    async with Client.connect(config) as client:
        for manifest in manifests:
            await client.create(manifest)


async def read(config: Config, name: str) -> dict[str, Any]:
    """Read a ConfigMap from a server."""
    async with Client.connect(config) as client:
        return await client.get(CONFIG_MAP, name, namespace="default")


class Reconciled:
    """A reconciler that records its requests as ``cluster:name``, and lets tests wait for them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.blocked: set[str] = set()
        """Clusters whose reconciles do not end until they are released."""
        self.released = asyncio.Event()
        self._changed = asyncio.Event()

    async def __call__(self, request: Request) -> None:
        self.seen.append(f"{request.cluster}:{request.name}")
        self._changed.set()
        if request.cluster in self.blocked:
            await self.released.wait()

    async def until(self, *expected: str) -> None:
        """Wait until each of ``expected`` was reconciled."""
        async with asyncio.timeout(LONG):
            while not set(expected) <= set(self.seen):
                self._changed.clear()
                await self._changed.wait()
