"""What every test shares."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest
import structlog
from structlog.dev import ConsoleRenderer, plain_traceback

from ctrlruntime.outbound_addresses import ALLOWED
from tests import properties
from tests.selection import is_sample
from tests.support.child_processes import ChildProcesses
from tests.xdist_groups import SERVERS, group_of, needs_real_server

if TYPE_CHECKING:
    from ctrlruntime.client.config import Config
    from ctrlruntime.envtest.server import APIServer
    from tests.backends import SharedServer

pytest_plugins = [
    "ctrlruntime.envtest.simulation.plugin",
    "tests.real_servers",
    "tests.catalogue.plugin",
    "tests.audit.plugin",
    "tests.samples.plugin",
    "tests.durations.plugin",
    "tests.support.standstill",
]

properties.use()

# Servers of tests are on loopback.
os.environ[ALLOWED] = "127.0.0.0/8,::1/128"

# structlog's own default draws frames with the values of all variables: more than a second for each exception logged.
_PLAIN = ConsoleRenderer(colors=False, exception_formatter=plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], _PLAIN])

# What is imported and collected lasts, and there is nothing in it that could be thrown away.
gc.disable()

BACKENDS = ("embedded", "kube-apiserver", "apiextensions")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        choices=BACKENDS,
        default="embedded",
        help="the API server that suites run on which know several (default: embedded)",
    )
    parser.addoption(
        "--planes",
        type=int,
        default=12,
        help="data planes of tests/fleet/simulation (default: 12; make sim-scale: 200)",
    )
    parser.addoption(
        "--rule-examples",
        type=int,
        help="objects of each kind that tests/rules makes from the CRDs (default: 15, in a sample 5; in full: 500)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.rule_examples is None:
        config.option.rule_examples = 5 if is_sample(config) else 15
    processes = ChildProcesses()
    processes.watch()
    config.pluginmanager.register(processes)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have `--dist loadgroup` heed groups with pytest 9.2, and keep real servers to few workers.

    Workers tell groups by a suffix of test ids, which pytest-xdist 3.8 writes where this pytest no
    longer looks; without it the marks do nothing, and what a group shares is made in every worker.
    """
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        group = group_of(item)
        if group and not item.nodeid.endswith(f"@{group}") and hasattr(item, "_id"):
            item._id = type(item._id).parse(f"{item.nodeid}@{group}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on garbage is looked for: in what the tests themselves make."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End a worker's real servers with the last test of their group: idle ones cost a tenth of a core.

    Should another test ask for one all the same, it is started again.
    """
    if nextitem is None or not getattr(item.config.option, "loadgroup", False):
        return
    if needs_real_server(item) and not needs_real_server(nextitem):
        for name in SERVERS:
            for definition in item.session._fixturemanager.getfixturedefs(name, item) or ():
                definition.finish(item._request)  # type: ignore[attr-defined]


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
def apiextensions_server(
    real_server: SharedServer, backend_name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServer]:
    """The oracle of custom resources: :func:`real_server`, which contains the server of these.

    With `--backend apiextensions` one apiextensions-apiserver for all tests of a worker, which asks it.
    """
    if backend_name != "apiextensions":
        yield real_server
        return
    from tests.backends import apiextensions

    with apiextensions(tmp_path_factory.mktemp("apiextensions"), real_server) as server:
        yield server


@pytest.fixture(params=["embedded", "kube-apiserver"])
def api_server(request: pytest.FixtureRequest) -> str:
    """For tests that run on both; `parametrize("api_server", ["embedded"], indirect=True)` on one."""
    if request.param != "embedded":
        request.getfixturevalue("real_server")
    return str(request.param)


@pytest.fixture
async def api_config(api_server: str, request: pytest.FixtureRequest) -> AsyncIterator[Config]:
    """An administrator's way to an embedded server of the test's own, or to the shared real one,
    whose namespaces `default` and `kube-public` are swept afterwards."""
    if api_server == "embedded":
        from ctrlruntime.client.config import Config
        from ctrlruntime.envtest.server import APIServer, ServerOptions

        async with APIServer(ServerOptions()) as server:
            yield Config(host=server.url)
    else:
        from tests.cleanup import sweep

        config = request.getfixturevalue("real_server").config
        yield config
        await sweep(config)


@pytest.fixture(autouse=True, scope="session")
def _no_implicit_event_loop() -> None:
    """Keep pytest-asyncio from creating a loop that is never closed.

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
