from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.nodes.cluster import NodeOptions
from ctrlruntime.envtest.nodes.program import SimulatedNodes


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment(proxy=True, users=("admin", "observed")) as environment:
        yield environment


@pytest.fixture
def client(env: Environment) -> Client:
    return env.client()


@pytest.fixture
async def start(env: Environment) -> AsyncIterator[Callable[..., asyncio.Future[None]]]:
    """Run simulated nodes as user `observed`, through the proxy."""

    async def begin(**options: object) -> None:
        kubeconfig = env.kubeconfig("observed")
        nodes = SimulatedNodes(
            env.config("observed"),
            NodeOptions(**options),  # type: ignore[arg-type]
            kubeconfig=kubeconfig,
        )
        await running.enter_async_context(nodes.running())

    async with contextlib.AsyncExitStack() as running:
        yield begin  # type: ignore[misc]


@pytest.fixture
async def nodes(start: Callable[..., asyncio.Future[None]]) -> None:
    await start()
