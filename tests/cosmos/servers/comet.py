"""All nodes of a test: one server that plays the RPC and the disk usage of each Pod.

    async with CometNodes.start(client) as nodes:
        nodes.node("chain-0").height = 12
        nodes.node("chain-1").unreachable = True

Simulated Pods have addresses on loopback. The server listens at all of them and tells Pods apart by
the address that a connection came to, so Pods name `nodes.port` as `rpc` and as `health`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from aiohttp import web

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client

POD = GroupVersionKind("", "v1", "Pod")
STATUS = "/status"
DEFAULT_NETWORK = "hub-1"
DISK = "/disk"
GIB = 1 << 30

Key = tuple[str, str]
"""Namespace and name of a Pod."""


@dataclass(slots=True)
class CometNode:
    """What one node says. It is the node's, not its Pod's: a Pod that comes again finds it as it was."""

    height: int | None = None
    """Its last block; None: the chain's, but for `behind`."""
    behind: int = 0
    """Blocks behind the chain."""
    catching_up: bool = False
    """Whether it says that it is behind."""
    network: str | None = None
    """Id of its chain; None: that of its Pod."""
    node_id: str = ""
    """Id of its key; empty: it reports none."""
    unreachable: bool = False
    """Connections are cut without an answer."""
    hangs: bool = False
    """The same for its own, while the container beside it answers."""
    slow: float = 0.0
    """Seconds before it answers."""
    block_age: float = 0.0
    """Seconds since its last block."""
    error: str = ""
    """It answers, with this error of its own."""
    body: bytes | None = None
    """What it says instead of a status."""
    code: int = 200
    """Code of the HTTP answer."""
    headers: dict[str, str] = field(default_factory=dict)
    """Further headers of the answer."""
    disk_total: int = 100 * GIB
    """Size of the disk, in bytes."""
    disk_free: int = 60 * GIB
    """What is free of it, in bytes."""
    disk_error: str = ""
    """The usage of the disk cannot be told."""
    _free: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._free.set()

    def hold(self) -> None:
        """Answer nothing until released."""
        self._free.clear()

    def release(self) -> None:
        """Answer again, questions that wait too."""
        self._free.set()

    async def wait(self) -> None:
        """Until it may answer."""
        await self._free.wait()
        if self.slow:
            await asyncio.sleep(self.slow)


class CometNodes:
    """The server. `blocks_per_second` is the pace of the chain, which starts at `height`."""

    def __init__(
        self, client: Client | None, *, height: int = 100, blocks_per_second: float = 0
    ) -> None:
        self._client = client
        self._height = height
        self._pace = blocks_per_second
        self._began = time.monotonic()
        self._nodes: dict[Key, CometNode] = {}
        self._pods: dict[str, Key] = {}
        self._networks: dict[Key, str] = {}
        self._looking = asyncio.Lock()
        self._told = asyncio.Event()
        self.port = 0
        self.asked: Counter[Key] = Counter()
        """Questions for the status that arrived, by namespace and name of the Pod."""
        self.disk_asked: Counter[Key] = Counter()
        """The same for the usage of the disk."""
        self.folders: dict[Key, str] = {}
        """The folder that was last asked for, by Pod."""
        self.under_way = 0
        """Questions that have no answer yet."""
        self.most_under_way = 0
        """The greatest number of them."""
        self._seen: set[object] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls, client: Client | None = None, *, height: int = 100, blocks_per_second: float = 0
    ) -> AsyncIterator[Self]:
        """Listen. The client reads Pods: whose address is whose. Without one, all is told by `place`."""
        nodes = cls(client, height=height, blocks_per_second=blocks_per_second)
        runner = await nodes.runner()
        site = web.TCPSite(runner, "0.0.0.0", 0)
        try:
            await site.start()
            nodes.port = runner.addresses[0][1]
            yield nodes
        finally:
            for node in nodes._nodes.values():
                node.release()
            await runner.cleanup()

    async def runner(self) -> web.AppRunner:
        """What sites are made of, at which nodes answer."""
        application = web.Application()
        application.router.add_get(STATUS, self._status)
        application.router.add_get(DISK, self._disk)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await runner.setup()
        return runner

    def node(self, name: str, namespace: str = "default") -> CometNode:
        """The node of the Pod of this name, now or later."""
        return self._nodes.setdefault((namespace, name), CometNode())

    def place(self, address: str, name: str, namespace: str = "default") -> None:
        """Say whose address it is."""
        self._pods[address] = namespace, name

    @property
    def height(self) -> int:
        """The chain's last block."""
        return self._height + int(self._pace * (time.monotonic() - self._began))

    def advance(self, blocks: int = 1) -> None:
        """Make blocks."""
        self._height += blocks

    @property
    def questions(self) -> int:
        """All that were ever asked."""
        return self.asked.total() + self.disk_asked.total()

    @property
    def connections(self) -> int:
        """How many connections questions came by."""
        return len(self._seen)

    async def until_asked(
        self, name: str, namespace: str = "default", *, more: int = 1, timeout: float = 60.0
    ) -> None:
        """Wait until the node was asked so many times more than now. Raises TimeoutError."""
        wanted = self.asked[namespace, name] + more
        async with asyncio.timeout(timeout):
            while self.asked[namespace, name] < wanted:
                await self.until_question()

    async def until_question(self) -> None:
        """Wait for the next question to any node."""
        self._told.clear()
        await self._told.wait()

    # The server

    async def _status(self, request: web.Request) -> web.StreamResponse:
        key = await self._pod(request)
        node = self.node(key[1], key[0])
        self.asked[key] += 1
        async with self._question(request, node):
            if node.hangs:
                _cut(request)
            if node.body is not None:
                answer = web.Response(body=node.body, status=node.code, headers=node.headers)
                answer.content_type = "application/json"
                return answer
            if node.error:
                told = _envelope(error={"code": -32603, "message": node.error})
                return web.json_response(told, status=500)
            told = _envelope(result=self._said(key, node))
            return web.json_response(told, status=node.code, headers=node.headers)

    async def _disk(self, request: web.Request) -> web.StreamResponse:
        key = await self._pod(request)
        node = self.node(key[1], key[0])
        self.disk_asked[key] += 1
        self.folders[key] = folder = request.query.get("dir", "")
        async with self._question(request, node):
            if node.disk_error:
                return web.json_response({"dir": folder, "error": node.disk_error}, status=500)
            usage = {"all_bytes": node.disk_total, "free_bytes": node.disk_free}
            return web.json_response({"dir": folder, **usage})

    @contextlib.asynccontextmanager
    async def _question(self, request: web.Request, node: CometNode) -> AsyncIterator[None]:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self._told.set()
        try:
            await node.wait()
            if node.unreachable:
                _cut(request)
            yield
        finally:
            self.under_way -= 1

    def _said(self, key: Key, node: CometNode) -> dict[str, Any]:
        height = self.height - node.behind if node.height is None else node.height
        return {
            "node_info": {
                "id": node.node_id,
                "moniker": key[1],
                "network": self._networks.get(key, DEFAULT_NETWORK)
                if node.network is None
                else node.network,
                "version": "0.38.12",
            },
            "sync_info": {
                "latest_block_hash": "8C0F3B7A",
                "latest_block_height": str(height),
                "latest_block_time": (datetime.now(UTC) - timedelta(seconds=node.block_age))
                .isoformat()
                .replace("+00:00", "Z"),
                "earliest_block_height": "1",
                "catching_up": node.catching_up,
            },
            "validator_info": {"voting_power": "0"},
        }

    async def _pod(self, request: web.Request) -> Key:
        if request.transport is None:  # who asked has gone
            raise web.HTTPServiceUnavailable
        self._seen.add(request.transport.get_extra_info("peername"))
        address = str(request.transport.get_extra_info("sockname")[0])
        if address not in self._pods:
            async with self._looking:
                await self._look_for(address)
        if address not in self._pods:
            _cut(request)
        return self._pods[address]

    async def _look_for(self, address: str) -> None:
        if address in self._pods or self._client is None:
            return
        for pod in await self._client.list(POD):
            metadata, status = pod["metadata"], pod.get("status") or {}
            if status.get("podIP"):
                key = self._pods[status["podIP"]] = metadata["namespace"], metadata["name"]
                self._networks[key] = next(_chain_ids(pod), DEFAULT_NETWORK)


def _chain_ids(pod: Mapping[str, Any]) -> Iterator[str]:
    for container in pod["spec"]["containers"]:
        for variable in container.get("env") or ():
            if variable["name"] == "CHAIN_ID":
                yield variable["value"]


def _envelope(**told: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": -1, **told}


def _cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()
    raise web.HTTPServiceUnavailable
