"""An embedded API server with the kind of kopf's examples, and a registry for each test's own handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ctrlruntime import kopf
from ctrlruntime.envtest import Environment

from .support import Bench, definition


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    kopf.set_default_registry(kopf.OperatorRegistry())
    async with Environment(users=("admin", "op"), proxy=True) as environment:
        await environment.install_crds(definition())
        yield Bench(environment, environment.client())
