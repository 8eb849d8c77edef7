from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from ctrlruntime.envtest.proxy import Proxy, ProxyOptions

from .upstream import Upstream


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


@pytest.fixture
async def proxy(upstream: Upstream) -> AsyncIterator[Proxy]:
    async with Proxy(upstream.url, ProxyOptions(users={"t-alice": "alice"})) as running:
        yield running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": "Bearer t-alice"}
    async with aiohttp.ClientSession(headers=headers) as http:
        yield http
