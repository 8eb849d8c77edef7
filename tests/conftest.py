"""What every test shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ctrlruntime.client.config import Config
    from ctrlruntime.envtest.server import APIServer
    from tests.backends import SharedServer

pytest_plugins = ["tests.catalogue.plugin"]

BACKENDS = ("embedded", "kube-apiserver", "apiextensions")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        choices=BACKENDS,
        default="embedded",
        help="the API server that suites run on which know several (default: embedded)",
    )


@pytest.fixture(scope="session")
def backend_name(request: pytest.FixtureRequest) -> str:
    """What `--backend` says."""
    return str(request.config.getoption("--backend"))


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    """One kube-apiserver, with kube-controller-manager, for all tests of a worker."""
    from tests.backends import kube_apiserver

    with kube_apiserver(tmp_path_factory.mktemp("kube-apiserver")) as server:
        yield server


@pytest.fixture(scope="session")
def apiextensions_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    """One apiextensions-apiserver, the current one, for all tests of a worker."""
    from tests.backends import apiextensions

    with apiextensions(tmp_path_factory.mktemp("apiextensions")) as server:
        yield server


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
