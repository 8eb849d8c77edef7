"""Fixtures of the tests of concurrency."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cloud.taskdriver.harness import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World.start() as world:
        yield world
