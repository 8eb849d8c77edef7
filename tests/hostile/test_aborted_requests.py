"""What requests that are given up leave behind, and how much all of them may hold (S-F16)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Iterator
from functools import partial
from operator import le
from urllib.parse import urlsplit

import pytest
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from ctrlruntime.manager.watchdog import GCOptions, GCTuner
from ctrlruntime.webhook import Application
from tests.support.waiting import eventually
from tests.webhook.posting import Posting, review
from tests.webhook.webhook_kinds import websites

MIB = 2**20
SITES = websites()
MUTATE, _ = Application(structlog.get_logger()).register(SITES.current)


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[Posting, Application]]:
    """An application of one kind, served as by a manager, and a client of it."""
    registry = CollectorRegistry()
    application = Application(structlog.get_logger(), registry)
    application.register(SITES.current)
    app = web.Application()
    app.add_routes(application.routes())
    runner = web.AppRunner(app, handler_cancellation=False, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with Posting(f"http://127.0.0.1:{runner.addresses[0][1]}", registry) as client:
            yield client, application
    finally:
        await runner.cleanup()


async def begin(
    client: Posting, size: int, *, query: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request of 7 MiB, and so many bytes of its body."""
    url = urlsplit(client._url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST {MUTATE}{query} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {7 * MIB}\r\n\r\n".encode() + b" " * size)
    return reader, writer


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    """What is in a cycle stays, as it does where the collector looks elsewhere."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.criterion("S-F16")
@pytest.mark.parametrize("query", ["", "?timeout=0.2s"])
async def test_requests_without_the_end_of_their_body_leave_nothing(query: str) -> None:
    async with served() as (client, application):
        with no_collector(), capture_logs() as logs:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(4):
                reader, writer = await begin(client, 3 * MIB, query=query)
                if query:
                    assert b"504" in await reader.readline()
                else:
                    await eventually(lambda: application.bodies.held == 3 * MIB)
                writer.transport.abort()
                await eventually(lambda: application.bodies.held == 0)
            await eventually(lambda: len(logs) == 4)
            assert application.bodies.held == 0
            assert tracemalloc.get_traced_memory()[0] - before < 3 * MIB
    assert {log["event"] for log in logs} == {
        "Webhook timed out" if query else "Request was aborted"
    }
    assert not any("exc_info" in log for log in logs)


@pytest.mark.criterion("S-F16")
async def test_all_bodies_together_are_bounded_and_the_next_one_is_answered() -> None:
    async with served() as (client, application):
        writers = [(await begin(client, 6 * MIB))[1] for _ in range(10)]
        await eventually(lambda: application.bodies.held == 60 * MIB)
        reader, refused = await begin(client, 6 * MIB)
        assert b" 429 " in await reader.readline()
        assert application.bodies.held <= 64 * MIB
        answer = await client.post(MUTATE, review(SITES.manifest(title="small")))
        assert answer.code == 200
        for writer in (*writers, refused):
            writer.transport.abort()
        await eventually(lambda: application.bodies.held == 0)


class Node:
    """An object that can be in a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.criterion("S-F16")
@pytest.mark.parametrize("frozen", [False, True])
async def test_old_cycles_go_within_a_minute_and_frozen_ones_when_memory_grows(
    frozen: bool,
) -> None:
    now, memory = 0.0, 100 * MIB
    tuner = GCTuner(
        GCOptions(manage=True, young_period=0.001),
        lambda _generation, _seconds: None,
        clock=lambda: now,
        memory=lambda: memory,
    )
    node: Node | None = Node() if frozen else None
    tuner.before_caches()
    try:
        tuner.after_caches()
        node = node or Node()
        gc.collect(1)
        gc.collect(1)
        left = weakref.ref(node)
        node = None
        gc.collect(1)
        assert left() is not None
        if frozen:
            memory += 129 * MIB
        else:
            now = 60.0
        await eventually(lambda: left() is None)
    finally:
        tuner.end()


@pytest.mark.criterion("S-F16")
async def test_growth_by_objects_is_frozen_in_small_parts_and_never_looked_at_again() -> None:
    """As where thousands of objects fill a cache: no collection looks at more than one part."""
    memory = 100 * MIB
    looked_at: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_at.append(sum(len(gc.get_objects(generation=each)) for each in range(3)))

    tuner = GCTuner(
        GCOptions(manage=True, young_period=0.001, most_unfrozen=1000),
        lambda _generation, _seconds: None,
        memory=lambda: memory,
    )
    tuner.before_caches()
    cache: list[Node] = []
    try:
        tuner.after_caches()
        gc.callbacks.append(count)
        for part in range(1, 5):
            cache += (Node() for _ in range(2000))
            memory += 100 * MIB
            await eventually(lambda: len(looked_at), partial(le, part))
        assert max(looked_at) < 20_000 < gc.get_freeze_count()
    finally:
        if count in gc.callbacks:
            gc.callbacks.remove(count)
        tuner.end()
