"""The page lists every way out; the answers that others bound in the run's own process are bounded there too (S-F9)."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlruntime.client.answer_limits import MIB
from internal.cloud.tasks.terraform.hcp import api
from tests.client.wire import WireServer
from tests.docs.blocks import ROOT
from tests.hostile.outbound_doors import DOORS
from tests.hostile.plane_answers import SHAPES, serving
from tests.hostile.ways_out import NO_WAY_OUT, WAYS

OPEN = frozenset(
    {
        *("outbound_session", "ClientSession", "open_connection", "create_connection", "socket"),
        *("HTTPConnection", "HTTPSConnection", "urlopen", "create_subprocess_exec"),
    }
)
"""Calls, and base classes, that lead out of the process."""
PRODUCT = ("ctrlruntime", "internal", "manager", "apis")


def opened(path: Path) -> Iterator[str]:
    """Yield what a module calls or derives from that leads out."""
    for node in ast.walk(ast.parse(path.read_text())):
        for used in [node.func] if isinstance(node, ast.Call) else getattr(node, "bases", ()):
            name = getattr(used, "attr", getattr(used, "id", "")).removeprefix("_")
            if name in OPEN:
                yield name


def test_every_way_out_is_on_the_page() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if "envtest" not in path.parts and any(word in path.read_text() for word in OPEN)
        if any(opened(path))
    }
    listed = [module for way in WAYS for module in way.modules]
    assert found == {*listed, *NO_WAY_OUT}
    assert sorted(name for way in WAYS for name in way.outbound) == sorted(DOORS)
    assert all((ROOT / each).is_file() for way in WAYS for each in way.tests)
    assert all(way.doors or way.tests for way in WAYS)


@pytest.mark.criterion("S-F9")
@pytest.mark.parametrize("door", ["an invariant", "HCP Terraform"])
async def test_no_more_is_read_than_the_limit(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server counts what it could send before the peer closed the connection."""
    monkeypatch.setattr(api, "LARGEST", MIB)
    sent = 0
    fields, body = SHAPES["an endless body"]

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for piece in body():
            sent += len(piece)
            yield piece

    async with serving(fields, counted) as server:
        text = await DOORS[door](server.url)
    assert text
    assert sent < 16 * MIB  # what the sockets of both sides hold comes on top
    assert server.connections == 1


@pytest.mark.criterion("S-F9")
@pytest.mark.parametrize("door", ["a hook", "an invariant"])
async def test_a_byte_now_and_then_does_not_prolong_a_request(
    door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.hostile.outbound_doors.SECONDS", 1)
    server = WireServer()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    server._scripts = [script]
    async with server:
        text = await DOORS[door](server.url)
    assert "within 1 s" in text
