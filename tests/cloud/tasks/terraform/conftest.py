from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cloud.servers.hcp import HCPServer
from tests.cloud.tasks.terraform.hcp_bench import HCPBench
from tests.cloud.tasks.workbench import Workbench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[HCPBench]:
    async with HCPServer() as server:
        yield HCPBench(server, Workbench(tmp_path))
