"""What the embedded server keeps for watches is bounded in bytes, however much is written."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.command import main
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.server.storage import Storage

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
MIB = 1024 * 1024


def config_map(number: int, size: int = 8192) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "labels": {"number": str(number)}},
        "data": {f"key-{index}": f"{number:032}" for index in range(size // 40)},
    }


def write(storage: Storage, changes: int) -> None:
    bucket = storage.bucket("configmaps")
    record = bucket.get("default", "a") or storage.create(bucket, config_map(0))
    for number in range(changes):
        record = storage.update(bucket, config_map(number), record)


@pytest.mark.criterion("EN-01")
def test_the_history_is_bounded_in_bytes() -> None:
    tracemalloc.start()
    try:
        storage = Storage(4 * MIB)
        write(storage, 1000)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        write(storage, 2000)  # 16 MiB of objects
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 3 * MIB < storage.history.bytes <= 4 * MIB
    bucket = storage.bucket("configmaps")
    assert 0 < len(bucket.history) < 500
    assert bucket.forgotten == bucket.history[0].revision - 1
    assert after < 12 * MIB, "decoded objects included"
    assert after - before < MIB, "what is written later takes no more than what was there"


async def test_the_limit_is_64_mib_unless_another_is_given() -> None:
    async with APIServer(ServerOptions()) as server:
        assert server.state.storage.history.limit == 64 * MIB
    option = next(each for each in main.params if each.name == "watch_history")
    assert option.default == 64


def test_all_kinds_share_the_limit_and_the_oldest_change_goes_first() -> None:
    storage = Storage(MIB)
    quiet = storage.bucket("secrets")
    storage.create(quiet, config_map(1))
    assert (len(quiet.history), quiet.forgotten) == (1, 0)
    write(storage, 1000)
    assert (len(quiet.history), quiet.forgotten) == (0, 2)
    assert storage.history.bytes == sum(
        change.counted for bucket in storage for change in bucket.history
    )


def test_old_changes_are_bytes_and_read_as_before() -> None:
    storage = Storage(64 * MIB)
    write(storage, 600)
    changes = storage.bucket("configmaps").since(0)
    assert len(changes) == 601
    old = changes[10]
    assert old.record._obj is None
    assert old.record.labels == {"number": "9"}
    assert old.previous is not None
    assert old.previous.obj["metadata"]["labels"] == {"number": "8"}
    assert changes[-1].record._obj is not None


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    async with APIServer(ServerOptions(watch_history=MIB)) as server:
        yield server


@pytest.mark.criterion("EN-01")
async def test_who_falls_behind_gets_410(server: APIServer) -> None:
    async with Client.connect(Config(host=server.url)) as client:
        made = await client.create(config_map(0))
        start = made["metadata"]["resourceVersion"]
        for number in range(200):
            await client.patch(CONFIG_MAP, "a", config_map(number), namespace="default")
        path = f"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={start}"
        answer = await client.transport.request("GET", path)
        assert b'"code":410' in answer.body
        assert b'"reason":"Expired"' in answer.body


@pytest.mark.criterion("EN-01")
async def test_a_watcher_that_does_not_read_ends_and_frees_what_waited_for_it(
    server: APIServer,
) -> None:
    """As from a real server: the stream ends, and the next watch from there gets 410."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
    path = "/api/v1/namespaces/default/configmaps?watch=1"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    bucket = server.state.storage.bucket("configmaps")
    async with Client.connect(Config(host=server.url)) as client, asyncio.timeout(60):
        await client.create(config_map(0, 200_000))
        watchers = list(bucket.watchers.values())
        number = 0
        while bucket.watchers and not any(watcher._overflow for watcher in watchers):  # type: ignore[attr-defined]
            number += 1
            await client.patch(CONFIG_MAP, "a", config_map(number, 200_000), namespace="default")
    assert all(not watcher._queue for watcher in watchers)  # type: ignore[attr-defined]
    writer.close()
