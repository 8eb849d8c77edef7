"""Pages followed live: ticks on changes only, rights asked again, nothing left of who disconnects."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from apis.tenancy import Tenant
from manager.console import server
from manager.console.changes import Changes, TooManyStreams, Topic
from manager.console.options import ConsoleOptions
from tests.console.harness import (
    ADMIN,
    RBAC,
    STRANGER,
    TEAM,
    TENANT,
    Harness,
    ready,
    running,
    token_of,
)
from tests.support.waiting import eventually


@pytest.fixture
async def console() -> AsyncIterator[Harness]:
    async with running() as harness:
        await harness.put(Tenant, "acme", TENANT, ready(False), namespace="team")
        yield harness


class Stream:
    """Events of one stream, as they come."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def event(self) -> str:
        """The next event's name; empty at the end."""
        while line := await self.answer.content.readline():
            if line.startswith(b"event: "):
                return line.decode().removeprefix("event: ").strip()
        return ""


@contextlib.asynccontextmanager
async def followed(console: Harness, path: str, user: object = ADMIN) -> AsyncIterator[Stream]:
    """A stream that is open."""
    headers = token_of(user)  # type: ignore[arg-type]
    timeout = aiohttp.ClientTimeout(total=120)
    async with console.http.get(console.url(path), headers=headers, timeout=timeout) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        assert answer.headers["Cache-Control"] == "no-store"
        events = Stream(answer)
        assert await events.event() == "open"
        yield events


async def test_a_change_of_what_a_page_shows_is_an_event(console: Harness) -> None:
    async with followed(console, "/live/tenants/team/acme", TEAM) as events:
        await console.report(Tenant, "acme", ready(True), "team")
        assert await events.event() == "change"


async def test_changes_elsewhere_are_no_event(console: Harness) -> None:
    topic = Topic(kinds=frozenset({"Tenant"}), namespace="team", name="acme")
    changes = Changes(1)
    with changes.subscribed(topic) as subscription:
        for other in (
            ("Tenant", "team", "b"),
            ("Tenant", "x", "acme"),
            ("Instance", "team", "acme"),
        ):
            changes.publish(*other)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await subscription.wait()
        changes.publish("Tenant", "team", "acme")
        await subscription.wait()
        with pytest.raises(TooManyStreams), changes.subscribed(topic):
            pass
    assert len(changes) == 0


async def test_many_changes_are_one_event_a_second_at_most(console: Harness) -> None:
    assert server.PERIOD == 1.0
    async with followed(console, "/live/failures") as events:
        began = time.monotonic()
        for number in range(3):
            for _ in range(5):
                await console.report(Tenant, "acme", ready(False, f"Reason{number}"), "team")
                await console.report(Tenant, "acme", ready(True), "team")
            assert await events.event() == "change"
        # Between three there are two pauses, however late each of them is read.
        assert time.monotonic() - began > 1.9


async def test_a_stream_takes_the_right_that_its_page_takes_and_ends_with_it(
    console: Harness,
) -> None:
    for user, path in ((STRANGER, "/live/"), (TEAM, "/live/"), (TEAM, "/live/queues")):
        assert (await console.get(path, user))[0] == 403
    async with followed(console, "/live/failures?namespace=team", TEAM) as events:
        await console.client.delete(f"{RBAC}/v1/RoleBinding", "team", namespace="team")
        console.console.reviews._rights._known.clear()  # as after five minutes
        await console.report(Tenant, "acme", ready(True), "team")
        assert await events.event() == "end"
        assert await events.event() == ""


async def test_a_client_that_disconnects_is_dropped_at_once(
    console: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ALIVE", 3600.0)  # no write notices it
    changes = console.console.state.changes
    async with followed(console, "/live/"), followed(console, "/live/failures"):
        assert len(changes) == 2
    await eventually(lambda: len(changes) == 0)


async def test_more_streams_than_allowed_are_refused() -> None:
    options = ConsoleOptions(bind_address="127.0.0.1:0", most_streams=1)
    async with running(options) as console, followed(console, "/live/"):
        assert (await console.get("/live/"))[0] == 503
        assert (await console.get("/"))[0] == 200


async def test_the_end_of_the_manager_ends_streams_at_once(console: Harness) -> None:
    async with followed(console, "/live/") as events:
        console.manager.stop()
        assert await events.event() == ""
        async with asyncio.timeout(60):
            await console.manager.stopped.wait()
