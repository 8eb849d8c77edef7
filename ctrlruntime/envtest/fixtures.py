"""Fixtures for pytest (with pytest-asyncio).

In the `conftest.py` of a test suite:

    pytest_plugins = ["ctrlruntime.envtest.fixtures"]

`envtest`            one environment a session, its server a process of its own
`envtest_options`    what it is made with; override it to choose a backend, users or nodes
`envtest_client`     a client of the administrator, for one test
`namespace`          the name of a fresh namespace, for one test
`proxy`              a Proxy in front of the server, on the test's own loop, for one test
`run_manager`        runs controllers in the test's namespace, through its proxy, until the test ends

The first two are of the whole session, the others of one test.
Something else under test gets `envtest_config(envtest, proxy, "manager")`; the test checks
`proxy.log` what it did. CTRLRUNTIME_ENVTEST_BACKEND chooses the backend of a whole run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import replace
from typing import Any, Final, Protocol

import pytest
import pytest_asyncio

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.clock import random_hex
from ctrlruntime.envtest.crds import CRDSource, install_crds
from ctrlruntime.envtest.environment import Environment
from ctrlruntime.envtest.proxy import Proxy
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.outbound_addresses import ALLOWED

BACKEND = "CTRLRUNTIME_ENVTEST_BACKEND"
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
_OF_ONE_TEST: Final = (
    "{0} is of one test, on its loop: give your fixture the scope of a function, as fixtures have without "
    "scope=...; or take `envtest`, which is of the session, and make {1}"
)
_INSTEAD: Final = {
    "envtest_options": 'envtest_options is of the session: write @pytest.fixture(scope="session") above yours',
    "envtest_client": _OF_ONE_TEST.format(
        "envtest_client", "a client: async with Client.connect(envtest.config()) as client:"
    ),
    "run_manager": _OF_ONE_TEST.format(
        "run_manager",
        'a manager: async with Manager(envtest.config("manager"), options).running():',
    ),
    "namespace": _OF_ONE_TEST.format("namespace", "a namespace of your own by a client of yours"),
    "proxy": _OF_ONE_TEST.format(
        "proxy", "a proxy: async with Proxy(envtest.backend.url, envtest.proxy_options()) as proxy:"
    ),
}
"""By the fixture that has another scope than is needed: what to write."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a fixture that needs one of a narrower scope what to write instead."""
    report = yield
    text = str(report.longrepr) if report.failed and report.when == "setup" else ""
    if "ScopeMismatch" in text and (name := next((n for n in _INSTEAD if n in text), None)):
        report.sections.append(("what to write instead", _INSTEAD[name]))
    return report


@pytest.fixture(scope="session")
def envtest_options() -> dict[str, Any]:
    """Arguments of Environment; the backend must be a process of its own."""
    return {"backend": os.environ.get(BACKEND, "embedded-process")}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def envtest(envtest_options: dict[str, Any]) -> AsyncIterator[Environment]:
    """One environment for the whole session.

    Ask it for `config()`, not for `client()`: tests run on loops of their own. Kubeconfigs in Secrets may lead to
    servers on this machine meanwhile, as those of tests are, unless `MANAGER_ALLOW_ADDRESSES` is set.
    """
    with _loopback_allowed():
        async with Environment(**envtest_options) as environment:
            yield environment


@contextlib.contextmanager
def _loopback_allowed() -> Iterator[None]:
    if ALLOWED in os.environ:
        yield
        return
    os.environ[ALLOWED] = "127.0.0.0/8,::1/128"
    try:
        yield
    finally:
        del os.environ[ALLOWED]


@pytest_asyncio.fixture
async def envtest_client(envtest: Environment) -> AsyncIterator[Client]:
    """Yield a client of the administrator."""
    async with Client.connect(envtest.config("admin")) as client:
        yield client


@pytest_asyncio.fixture
async def namespace(envtest_client: Client) -> AsyncIterator[str]:
    """Yield a namespace that is deleted after the test."""
    name = f"test-{random_hex(4)}"
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
    """Yield a proxy in front of the session's server: its own log and its own faults."""
    async with Proxy(envtest.backend.url, envtest.proxy_options()) as running:
        yield running


class RunManager(Protocol):
    """What the fixture `run_manager` gives."""

    async def __call__(
        self,
        setup: Callable[[Manager], object],
        *crds: CRDSource,
        options: ManagerOptions | None = None,
    ) -> Manager:
        """Install `crds`, let `setup` add controllers to a manager, and start it.

        Returns once it leads. It reads and writes through the test's proxy as the user `manager`,
        watches the test's namespace alone, and ends with the test. What ends it sooner fails the
        test.
        """


@pytest_asyncio.fixture
async def run_manager(
    envtest: Environment, proxy: Proxy, namespace: str
) -> AsyncIterator[RunManager]:
    """Run controllers for one test."""

    async def run(
        setup: Callable[[Manager], object],
        *crds: CRDSource,
        options: ManagerOptions | None = None,
    ) -> Manager:
        async with Client.connect(envtest.config("admin")) as client:
            await install_crds(client, crds)
        given = options or ManagerOptions(name="manager", namespaces=(namespace,))
        quiet = replace(given, metrics_bind_address="0", health_bind_address="0")
        manager = Manager(envtest_config(envtest, proxy, "manager"), quiet)
        setup(manager)
        return await stack.enter_async_context(manager.running())

    async with contextlib.AsyncExitStack() as stack:
        yield run


def envtest_config(environment: Environment, through: Proxy, user: str = "admin") -> Config:
    """How `user` reaches the server through a test's proxy."""
    return replace(environment.config(user), host=through.url, ca_data=None)
