"""Fixtures of the tenancy tests: a private database, a renderer, registries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import trustme

from internal.tenancy.rendering import Renderer
from tests.audit.request_recorder import RequestRecorder
from tests.conformance.releases import lacking
from tests.mariadb import MariaDB
from tests.postgres import Postgres
from tests.tenancy.harness import TenancyHarness
from tests.tenancy.manager_forkserver import ForkServer
from tests.tenancy.servers import EMBEDDED, REAL, server_of
from tests.tenancy.shared_server import InstalledServer

HERE = Path(__file__).parent
SHARED = {"shared_harness", "shared_harness_with_nodes"}
HARNESSES = {"harness", "tmp_path", *SHARED}
"""What a test asks for that has a harness, or makes one."""


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "since(change): shows what a later release changed, see tests/conformance/releases.py",
        "embedded(why): cannot be told of a real server",
        "matrix: one of many alike, or all of it before the server; told there in the full run alone",
    ):
        config.addinivalue_line("markers", line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Without a word on servers, scenarios are told twice: on the embedded one and on the real one.

    Those of the large matrices are told on the real one by `--backend kube-apiserver` alone.
    """
    if metafunc.config.getoption("--backend") != EMBEDDED or not defines_harness(metafunc.module):
        return
    servers = [pytest.param(EMBEDDED, id=pytest.HIDDEN_PARAM)]
    if uses_harness(metafunc) and metafunc.definition.get_closest_marker("matrix") is None:
        group = f"{metafunc.module.__name__} on {REAL}"
        marks = [pytest.mark.xdist_group(group)] if "harness" in metafunc.fixturenames else []
        servers.append(pytest.param(REAL, marks=marks))
    metafunc.parametrize("shared_server", servers, indirect=True, scope="module")


def uses_harness(metafunc: pytest.Metafunc) -> bool:
    return not HARNESSES.isdisjoint(metafunc.fixturenames)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that share a harness stay together on one worker: it would be made on each.

    What asks no server is not told again on another one.
    """
    left_out = [
        item for item in items if item.path.parent == HERE and not is_selected(config, item)
    ]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and SHARED.intersection(item.fixturenames)
            and item.get_closest_marker("xdist_group") is None
        ):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem} of tenancy"))


def is_selected(config: pytest.Config, item: pytest.Item) -> bool:
    """Whether a scenario belongs to this run on its server."""
    assert isinstance(item, pytest.Function)
    if config.getoption("--backend") != EMBEDDED:
        return defines_harness(item.module)
    return server_of(item) == EMBEDDED or item.get_closest_marker("matrix") is None


def defines_harness(module: object) -> bool:
    known = vars(module).values()
    return any(isinstance(each, type) and issubclass(each, TenancyHarness) for each in known)


@pytest.fixture
async def forkserver() -> AsyncIterator[ForkServer]:
    async with ForkServer.running() as forkserver:
        yield forkserver


@pytest.fixture(scope="session")
def installed_server(request: pytest.FixtureRequest) -> InstalledServer:
    """The real server of this worker, ready for harnesses."""
    return InstalledServer(request.getfixturevalue("real_server"))


@pytest.fixture(scope="module", autouse=True)
def shared_server(
    request: pytest.FixtureRequest, backend_name: str, ledger: RequestRecorder
) -> Iterator[None]:
    """Where harnesses stand, and who takes down what their managers ask. Harnesses that outlive a test depend on it."""
    TenancyHarness.ledger = ledger
    name = getattr(request, "param", backend_name)
    if name not in (EMBEDDED, REAL):
        raise pytest.UsageError(f"the tenancy system needs built-in kinds: {REAL} has them")
    if name == REAL:
        TenancyHarness.shared_server = request.getfixturevalue("installed_server")
    yield
    TenancyHarness.shared_server = None


@pytest.fixture(autouse=True)
def _fits(request: pytest.FixtureRequest, shared_server: None) -> None:
    """Skip, with the reason, what the real server under test cannot show."""
    if TenancyHarness.shared_server is None:
        return
    for mark in request.node.iter_markers("embedded"):
        pytest.skip(mark.args[0])
    if why := lacking(request.node, TenancyHarness.shared_server.server.version):
        pytest.skip(why)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The authority of the databases' certificates."""
    return trustme.CA()


@pytest.fixture(scope="session")
def mariadb(authority: trustme.CA) -> Iterator[MariaDB]:
    with MariaDB.start(authority) as database:
        yield database


@pytest.fixture(scope="session")
def postgres(authority: trustme.CA) -> Iterator[Postgres]:
    with Postgres.start(authority) as database:
        yield database


@pytest.fixture
async def renderer() -> AsyncIterator[Renderer]:
    made = Renderer()
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """One harness for all tests of a module, each in a namespace of its own (see Fleet)."""
    async with TenancyHarness.start(tmp_path_factory.mktemp("harness")) as harness:
        yield harness


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_harness_with_nodes(
    shared_server: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[TenancyHarness]:
    """The same with simulated nodes that run Pods."""
    async with TenancyHarness.start(
        tmp_path_factory.mktemp("harness"), nodes=True, pods=True
    ) as harness:
        yield harness
