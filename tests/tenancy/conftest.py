"""Fixtures of the tenancy tests: a private database, a renderer, registries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from internal.tenancy.rendering import Renderer
from tests.audit.ledger import Ledger
from tests.conformance.releases import CHANGES
from tests.mariadb import MariaDB
from tests.tenancy.ground import Ground
from tests.tenancy.world import World

HERE = Path(__file__).parent
SHARED = {"shared_world", "shared_world_with_nodes"}


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "since(change): shows what a later release changed, see tests/conformance/releases.py",
        "embedded(why): cannot be told of a real server",
        "matrix: one of many alike; on a real server told in the full run alone",
    ):
        config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that share a world stay together on one worker: it would be made on each.

    What asks no server is not told again on another one.
    """
    if config.getoption("--backend") != "embedded":
        pure = [i for i in items if i.path.parent == HERE and not asks_a_server(i)]
        config.hook.pytest_deselected(items=pure)
        items[:] = [item for item in items if item not in pure]
    for item in items:
        if isinstance(item, pytest.Function) and SHARED.intersection(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem} of tenancy"))


def asks_a_server(item: pytest.Item) -> bool:
    """Whether its module knows of worlds."""
    known = vars(item.module).values() if isinstance(item, pytest.Function) else ()
    return any(isinstance(each, type) and issubclass(each, World) for each in known)


@pytest.fixture(scope="session", autouse=True)
def _ground(request: pytest.FixtureRequest, backend_name: str, ledger: Ledger) -> Iterator[None]:
    """Where worlds stand: `--backend`; and who takes down what their managers ask."""
    World.ledger = ledger
    if backend_name == "embedded":
        yield
        return
    if backend_name != "kube-apiserver":
        raise pytest.UsageError("the tenancy system needs built-in kinds: kube-apiserver has them")
    World.ground = Ground(request.getfixturevalue("real_server"))
    yield


@pytest.fixture(autouse=True)
def _fits(request: pytest.FixtureRequest) -> None:
    """Skip, with the reason, what the real server under test cannot show."""
    if World.ground is None:
        return
    for mark in request.node.iter_markers("embedded"):
        pytest.skip(str(mark.args[0]))
    version = World.ground.server.version
    for mark in request.node.iter_markers("since"):
        change = CHANGES[mark.args[0]]
        if version < (1, change.release):
            pytest.skip(f"since 1.{change.release}: {change.reason}")


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB.start() as database:
        yield database


@pytest.fixture
async def renderer() -> AsyncIterator[Renderer]:
    made = Renderer()
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """One world for all tests of a module, each in a namespace of its own (see Fleet)."""
    async with World.start(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world_with_nodes(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[World]:
    """The same with simulated nodes that run Pods."""
    async with World.start(tmp_path_factory.mktemp("world"), nodes=True, pods=True) as world:
        yield world
