"""A kube-apiserver of these tests' own, to be killed, and a network that can fail."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.envtest.backends import KubeApiserverBackend
from tests.backends import kube_apiserver
from tests.cache.real.relay import Relay


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserverBackend]:
    folder = tmp_path_factory.mktemp("survival")
    flags = {"v": "1"}
    with kube_apiserver(folder, controller_manager=False, apiserver_flags=flags) as server:
        assert isinstance(server.backend, KubeApiserverBackend)
        yield server.backend


@pytest.fixture
async def relay(backend: KubeApiserverBackend) -> AsyncIterator[Relay]:
    async with Relay(backend.url) as relay:
        yield relay


@pytest.fixture
async def admin(backend: KubeApiserverBackend) -> AsyncIterator[Client]:
    """Past the relay."""
    async with Client.connect(backend.own_config()) as client:
        yield client


@pytest.fixture
async def namespace(admin: Client) -> str:
    """Without the namespace controller none is ever gone; the server goes instead."""
    name = f"survival-{uuid.uuid4().hex[:8]}"
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name
