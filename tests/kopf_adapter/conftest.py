"""An API server with the kind of kopf's examples, and a registry for each test's own handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ctrlruntime import kopf
from ctrlruntime.envtest import Environment
from tests.cleanup import sweep

from .support import Bench, definition


@pytest.fixture
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """On the embedded server; tests with `BOTH` run on the real one as well."""
    kopf.set_default_registry(kopf.OperatorRegistry())
    if getattr(request, "param", "embedded") == "embedded":
        async with Environment(users=("admin", "op"), proxy=True) as environment:
            await environment.install_crds(definition())
            yield Bench(environment, environment.client())
        return
    server = request.getfixturevalue("real_server")
    async with server.environment(users=("admin", "op"), proxy=True) as environment:
        await environment.install_crds(definition())
        yield Bench(environment, environment.client())
    await sweep(server.config)
