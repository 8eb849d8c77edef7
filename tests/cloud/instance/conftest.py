"""One harness for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import InstanceHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[InstanceHarness]:
    async with InstanceHarness.start(tmp_path) as made:
        yield made


@pytest.fixture
async def e2e_harness(tmp_path: Path) -> AsyncIterator[E2EHarness]:
    async with E2EHarness.start(tmp_path) as made:
        yield made
