"""Fixtures of the driver's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cloud.taskdriver.harness import TaskDriverHarness


@pytest.fixture
async def harness() -> AsyncIterator[TaskDriverHarness]:
    async with TaskDriverHarness.start() as harness:
        yield harness
