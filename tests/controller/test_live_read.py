"""LV-8: after a write without an answer the object is read from the server once, before its next reconcile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ctrlruntime.cache import Entry
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import WriteOutcomeUnknown
from ctrlruntime.client.transport import Response
from ctrlruntime.controller import Builder, Request
from tests.cache.lagging_watch import LaggingWatch
from tests.manager.support import CONFIG_MAP, LONG, manager

pytestmark = pytest.mark.criterion("LV-8")


async def test_the_live_read_before_a_reconcile_shows_what_a_lost_answer_wrote(
    config: Config,
) -> None:
    subject = manager(config)
    seen: list[Any] = []
    reads: list[str] = []
    again = asyncio.Event()

    async def lose(call: Call, execute: Execute) -> Response:
        await execute(call)
        raise WriteOutcomeUnknown("the answer is lost")

    async def reconcile(request: Request) -> None:
        if request.name != "a":
            return
        found = subject.cache.get(CONFIG_MAP, "a", namespace="default")
        assert found is not None
        seen.append(found.get("data"))
        if len(seen) > 1:
            again.set()
            return
        LaggingWatch(subject.cache.informer(CONFIG_MAP))
        patch = {"data": {"written": "yes"}}
        await subject.client.intercepted(lose).patch(CONFIG_MAP, "a", patch, namespace="default")

    Builder(subject).for_(CONFIG_MAP).named("live-read").build(reconcile)
    informer = subject.cache.informer(CONFIG_MAP)
    refresh = informer.refresh

    async def counted(key: tuple[str, str]) -> Entry | None:
        reads.append(key[1])
        return await refresh(key)

    informer.refresh = counted  # type: ignore[method-assign]
    body = {"apiVersion": "v1", "kind": "ConfigMap"}
    async with asyncio.timeout(LONG), subject.running():
        metadata = {"name": "a", "namespace": "default"}
        await subject.live_client.create({**body, "metadata": metadata})
        await again.wait()
        assert seen[:2] == [None, {"written": "yes"}]  # what was read may reconcile it once more
        assert reads == ["a"]
        assert not subject.cache.unconfirmed(CONFIG_MAP, "a", namespace="default")
