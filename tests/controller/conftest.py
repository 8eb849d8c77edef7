"""A manager's server: the embedded one, and the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ctrlruntime.envtest import Environment
from tests.cleanup import sweep


@pytest.fixture
async def environment(
    api_server: str, request: pytest.FixtureRequest
) -> AsyncIterator[Environment]:
    """With a proxy that logs requests by user."""
    if api_server == "embedded":
        async with Environment(proxy=True) as running:
            yield running
        return
    server = request.getfixturevalue("real_server")
    async with server.environment(users=("admin", "manager"), proxy=True) as running:
        yield running
    await sweep(server.config)
