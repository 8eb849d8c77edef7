from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from internal.cloud.runs import RunOwner, RunProvider
from internal.cloud.runs.local import supervisor
from tests.cloud.runs.benches import Bench, LocalBench


@pytest.fixture(params=["local"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    folder = tmp_path / "runs"
    yield LocalBench(folder)
    for path in folder.glob("[!.]*/*"):
        supervisor.end_all(str(path))


@pytest.fixture
async def provider(bench: Bench) -> AsyncIterator[RunProvider]:
    made = bench.provider()
    yield made
    await made.aclose()


@pytest.fixture
async def owner(bench: Bench) -> RunOwner:
    return await bench.owner()
