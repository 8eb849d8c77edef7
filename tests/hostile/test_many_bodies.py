"""S-F16: many large bodies at once are answered, each, and neighbours go on."""

from __future__ import annotations

import asyncio

import pytest

from tests.hostile.test_aborted_requests import MIB, MUTATE, SITES, begin, served
from tests.support.waiting import eventually
from tests.webhook.posting import review

pytestmark = pytest.mark.criterion("S-F16")


async def test_bodies_beyond_the_limit_are_answered_with_a_time_to_try_again() -> None:
    async with served() as (client, application):
        held = [await begin(client, 6 * MIB) for _ in range(10)]

        async def post() -> bytes:
            """Send a whole body, however early the answer comes, as an API server may."""
            reader, writer = await begin(client, 7 * MIB)
            try:
                await writer.drain()
                return (await reader.readuntil(b"\r\n\r\n")).lower()
            finally:
                writer.transport.abort()

        answers = asyncio.gather(*(post() for _ in range(150)))
        small = [
            await client.post(MUTATE, review(SITES.manifest(title=f"small{number}")))
            for number in range(20)
        ]
        assert [answer.code for answer in small] == [200] * 20
        heads = await answers
        assert {head.split(b" ")[1] for head in heads} <= {b"429", b"400"}
        refused = [head for head in heads if head.split(b" ")[1] == b"429"]
        assert len(refused) >= 100
        assert all(b"\r\nretry-after: 1\r\n" in head for head in refused)
        assert application.bodies.held <= 64 * MIB
        for _, writer in held:
            writer.transport.abort()


async def test_large_bodies_leave_room_for_small_ones() -> None:
    async with served() as (client, application):
        held = [await begin(client, 6 * MIB) for _ in range(10)]
        await eventually(lambda: application.bodies.held == 60 * MIB)
        reader, large = await begin(client, 4 * MIB - 1)
        assert b" 429 " in await reader.readline()
        for size in (1, 200_000):
            answer = await client.post(MUTATE, review(SITES.manifest(title="x" * size)))
            assert answer.code == 200
        for writer in (*(writer for _, writer in held), large):
            writer.transport.abort()
