"""Servers that webhooks are proven against."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from internal.approvals.key import KEY
from tests.webhook.webhook_kinds import Websites, websites


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def environment(request: pytest.FixtureRequest) -> AsyncIterator[Environment]:
    """The embedded server, and the real one."""
    if request.param == "embedded":
        async with Environment() as running:
            yield running
        return
    async with request.getfixturevalue("real_server").environment() as running:
        yield running


@pytest.fixture
async def hooks(environment: Environment) -> AsyncIterator[LocalWebhooks]:
    """Webhooks that the server calls here, with a key for records: a manager waits for one at its start."""
    async with LocalWebhooks(environment) as local:
        (environment.folder / "webhooks" / KEY).write_bytes(b"k" * 32)
        yield local


@pytest.fixture
def sites() -> Websites:
    """The kind, in a group that no other test has."""
    return websites(f"t{secrets.token_hex(4)}.example.com")
