"""Health of a node and usage of its disk, over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from ctrlruntime.envtest.backends.ports import free_port
from internal.cosmos.comet.address import Address
from internal.cosmos.comet.client import NodeClient
from internal.cosmos.comet.usage import parse_usage
from internal.cosmos.sidecar.serving import make_app
from tests.support.waiting import eventually_succeeds

from .rpc import nobody, rpc_server

Answer = tuple[int, dict[str, Any]]


@asynccontextmanager
async def asking(
    address: Address, statvfs: Callable[[str], os.statvfs_result] = os.statvfs
) -> AsyncIterator[Callable[..., Any]]:
    nodes = NodeClient(deadline=60)
    async with (
        TestServer(make_app(nodes, address, statvfs)) as server,
        aiohttp.ClientSession() as web,
    ):

        async def ask(path: str, **params: str) -> Answer:
            async with web.get(server.make_url(path), params=params) as response:
                assert response.content_type == "application/json"
                return response.status, await response.json()

        yield ask
    await nodes.close()


@pytest.mark.criterion("COSMOS-A8-1")
async def test_a_node_is_well_only_once_it_has_caught_up() -> None:
    async with rpc_server() as node, asking(node.address) as ask:
        node.height, node.catching_up = 41, True
        code, body = await ask("/health")
        assert code == 503
        assert "not caught up" in body["error"]
        node.catching_up = False
        assert await ask("/health") == (200, {"height": 41})
        node.broken = True
        code, body = await ask("/health")
        assert code == 503
        assert body["error"]


async def test_a_node_that_cannot_be_reached_is_not_well() -> None:
    async with asking(nobody()) as ask:
        code, body = await ask("/health")
        assert code == 503
        assert "cannot be reached" in body["error"]


@pytest.mark.criterion("COSMOS-A8-1")
async def test_how_full_a_disk_is(tmp_path: Path) -> None:
    async with asking(nobody()) as ask:
        code, body = await ask("/disk", dir=str(tmp_path))
    real = os.statvfs(tmp_path)
    assert code == 200
    assert body["dir"] == str(tmp_path)
    assert body["all_bytes"] == real.f_blocks * real.f_frsize
    assert 0 <= body["free_bytes"] <= body["all_bytes"]


async def test_the_manager_understands_what_is_said_of_a_disk(tmp_path: Path) -> None:
    nodes = NodeClient(deadline=60)
    async with TestServer(make_app(nodes, nobody())) as server:
        usage = await nodes.usage(Address("127.0.0.1", 0, server.port or 0), str(tmp_path))
    await nodes.close()
    assert 0 <= usage.free <= usage.total


async def test_sizes_are_in_bytes_and_what_root_keeps_to_itself_is_not_free() -> None:
    def statvfs(_folder: str) -> os.statvfs_result:
        # bsize, frsize, blocks, bfree, bavail, and others
        return os.statvfs_result((4096, 512, 1000, 300, 250, 0, 0, 0, 0, 255))

    async with asking(nobody(), statvfs) as ask:
        code, body = await ask("/disk", dir="/data")
    assert (code, body) == (
        200,
        {"dir": "/data", "all_bytes": 512_000, "free_bytes": 128_000},
    )


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, 400),
        ({"dir": ""}, 400),
        ({"dir": "data"}, 400),
        ({"dir": "/a\0b"}, 400),
        ({"dir": "/nowhere/at/all"}, 404),
    ],
)
async def test_a_bad_folder_is_reported(params: dict[str, str], code: int) -> None:
    async with asking(nobody()) as ask:
        answered, body = await ask("/disk", **params)
    assert answered == code
    assert body["error"]


async def test_a_disk_that_cannot_be_read_is_an_error_that_the_manager_understands() -> None:
    def statvfs(_folder: str) -> os.statvfs_result:
        raise OSError(5, "Input/output error")

    async with asking(nobody(), statvfs) as ask:
        code, body = await ask("/disk", dir="/data")
    assert code == 500
    assert body["error"] == "Input/output error"
    with pytest.raises(Exception, match="a string of 18 characters"):
        parse_usage(json.dumps(body).encode())


async def _disk(
    process: asyncio.subprocess.Process, port: int, folder: Path
) -> dict[str, Any] | None:
    """Return what is answered once the process serves; None if it has ended."""
    async with aiohttp.ClientSession() as web:

        async def usage() -> dict[str, Any] | None:
            if process.returncode is not None:
                return None
            url = f"http://127.0.0.1:{port}/disk"
            async with web.get(url, params={"dir": str(folder)}) as response:
                found: dict[str, Any] = await response.json()
                return found

        return await eventually_succeeds(usage, despite=aiohttp.ClientError)


async def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    """As a process: on a port of its own, and ends with 0. Another process may take a free port first."""
    command = [
        sys.executable,
        "-m",
        "manager",
        "node",
        "healthcheck",
        "--rpc-url=http://127.0.0.1:9",
    ]
    for _ in range(3):
        port = free_port()
        where = f"--bind-address=127.0.0.1:{port}"
        process = await asyncio.create_subprocess_exec(*command, where)
        try:
            usage = await _disk(process, port, tmp_path)
            if usage is None:
                continue
            assert usage["dir"] == str(tmp_path)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                assert await process.wait() == 0
            return
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    raise AssertionError("it ended at once on each of three ports")
