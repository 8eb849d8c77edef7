from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ctrlruntime.cache.cache import Cache
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.nodes.cluster import NodeOptions
from ctrlruntime.envtest.nodes.program import SimulatedNodes
from internal.cloud.runs import RunOwner, RunProvider
from internal.cloud.runs.local import supervisor
from tests.cloud.rbac import embedded
from tests.cloud.runs.benches import GRACE, Bench, CloudRunBench, JobBench, LocalBench
from tests.cloud.servers.cloudrun import CloudServer


@pytest.fixture
def local_bench(tmp_path: Path) -> LocalBench:
    return LocalBench(tmp_path / "runs")


@asynccontextmanager
async def jobs_on(environment: Environment, namespace: str) -> AsyncIterator[JobBench]:
    """Simulated nodes, and a cache that says what changed."""
    nodes = SimulatedNodes(
        environment.config("nodes", direct=True),
        NodeOptions(run_local=True, namespaces=(namespace,), workers=8),
        kubeconfig=environment.kubeconfig("nodes", direct=True),
    )
    cache = Cache(environment.client("manager"))
    async with nodes.running():
        try:
            await cache.start()
            yield JobBench(environment, namespace, cache)
        finally:
            await cache.stop()


@pytest.fixture
async def job_bench() -> AsyncIterator[JobBench]:
    async with embedded("manager") as environment, jobs_on(environment, "default") as bench:
        yield bench


@pytest.fixture
async def cloud_run_bench(tmp_path: Path) -> AsyncIterator[CloudRunBench]:
    folder = tmp_path / "cloud"
    folder.mkdir()
    server = CloudServer(folder, project="shops", location="here", bucket="runs-of-shops")
    async with server:
        yield CloudRunBench(server)


@pytest.fixture(params=["local", "job", "cloud_run"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    made: Bench = request.getfixturevalue(f"{request.param}_bench")
    return made


@pytest.fixture(autouse=True)
async def _nothing_goes_on(tmp_path: Path) -> AsyncIterator[None]:
    yield
    for path in (tmp_path / "runs").glob("[!.]*/*"):
        supervisor.end_all(str(path))


@pytest.fixture
def grace() -> int:
    """Seconds that a cancelled run has; some tests wait until they are over."""
    return GRACE


@pytest.fixture
async def provider(bench: Bench, grace: int) -> AsyncIterator[RunProvider]:
    made = bench.provider(grace)
    yield made
    await made.aclose()


@pytest.fixture
async def owner(bench: Bench) -> RunOwner:
    return await bench.owner()
