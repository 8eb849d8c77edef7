"""kubectl, and the installation on the shared server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from tests.backends import SharedServer
from tests.envtest.kubectl.binaries import provisioned
from tests.manifests.installation import ROOT, installed

Kubectl = Callable[..., Awaitable[str]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(
    real_server: SharedServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environment]:
    """The shared kube-apiserver, with an administrator."""
    folder = tmp_path_factory.mktemp("real")
    async with real_server.environment(folder=folder, users=("admin",)) as environment:
        yield environment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(real: Environment) -> AsyncIterator[Client]:
    """dist/install-all.yaml on it, without the Deployment; an administrator's client."""
    client = real.client("admin")
    async with installed(client):
        yield client


@pytest.fixture
def kubectl(real: Environment) -> Kubectl:
    """``await kubectl("get", "pods")``: what it printed. AssertionError where it failed."""

    async def run(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            str(provisioned()),
            f"--kubeconfig={real.kubeconfig('admin')}",
            f"--cache-dir={real.folder / 'kubectl'}",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "HOME": str(real.folder)},
        )
        answer, _ = await process.communicate()
        assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {answer.decode()}"
        return answer.decode()

    return run


@pytest.fixture
def folder() -> Path:
    """config/."""
    return ROOT / "config"
