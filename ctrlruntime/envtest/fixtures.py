"""Fixtures for pytest (with pytest-asyncio). In the `conftest.py` of a test suite:

    pytest_plugins = ["ctrlruntime.envtest.fixtures"]

`envtest`            one environment a session, its server a process of its own
`envtest_options`    what it is made with; override it to choose a backend, users or nodes
`envtest_client`     a client of the administrator, for one test
`namespace`          the name of a fresh namespace, for one test
`proxy`              a Proxy in front of the server, on the test's own loop, for one test

A controller under test gets `envtest_config(envtest, proxy, "manager")`, and the test asks
`proxy.log` what it did.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.environment import Environment
from ctrlruntime.envtest.proxy import Proxy

NAMESPACE = GroupVersionKind("", "v1", "Namespace")


@pytest.fixture(scope="session")
def envtest_options() -> dict[str, Any]:
    """Arguments of Environment; the backend must be a process of its own."""
    return {"backend": "embedded-process"}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def envtest(envtest_options: dict[str, Any]) -> AsyncIterator[Environment]:
    """One environment for the whole session. Ask it for `config()`, not for `client()`: tests
    run on loops of their own."""
    async with Environment(**envtest_options) as environment:
        yield environment


@pytest_asyncio.fixture
async def envtest_client(envtest: Environment) -> AsyncIterator[Client]:
    """A client of the administrator."""
    async with Client.connect(envtest.config("admin")) as client:
        yield client


@pytest_asyncio.fixture
async def namespace(envtest_client: Client) -> AsyncIterator[str]:
    """A namespace that is deleted after the test."""
    name = f"test-{secrets.token_hex(4)}"
    await envtest_client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    yield name
    try:
        await envtest_client.delete(NAMESPACE, name)
    except NotFound:
        return


@pytest_asyncio.fixture
async def proxy(envtest: Environment) -> AsyncIterator[Proxy]:
    """A proxy in front of the session's server: its own log and its own faults."""
    async with Proxy(envtest.backend.url, envtest.proxy_options()) as running:
        yield running


def envtest_config(environment: Environment, through: Proxy, user: str = "admin") -> Config:
    """How `user` reaches the server through a test's proxy."""
    return replace(environment.config(user), host=through.url, ca_data=None)
