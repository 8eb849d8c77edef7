"""One stage for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cloud.instance.e2e_harness import Theatre
from tests.cloud.instance.harness import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage.start(tmp_path) as made:
        yield made


@pytest.fixture
async def theatre(tmp_path: Path) -> AsyncIterator[Theatre]:
    async with Theatre.start(tmp_path) as made:
        yield made
