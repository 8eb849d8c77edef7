"""Every write asks the fence in the turn in which it is sent, however long it had to wait before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from socket import create_server, socket

import pytest
import uvloop

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.transport import Transport, TransportOptions
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy.rules import Delay, Fail, Match
from ctrlruntime.manager.leadership import LeaderElectionLost

pytestmark = pytest.mark.criterion("hand-over")

LIMIT = 60.0
"""Seconds that a long turn waits for bytes; a machine that has much else to do delivers them by then."""
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


class Gate:
    """A fence that opens and closes by hand."""

    def __init__(self) -> None:
        self.closed = False

    def __call__(self) -> None:
        if self.closed:
            raise LeaderElectionLost


@pytest.fixture
async def environment() -> AsyncIterator[Environment]:
    async with Environment(proxy=True) as environment:
        await environment.client("envtest").create(config_map("there"))
        yield environment


def config_map(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }


def written(environment: Environment) -> list[tuple[str, int]]:
    entries = environment.proxy.log.entries()
    return [(entry.verb, entry.code) for entry in entries if entry.verb != "get"]


async def test_a_closed_fence_refuses_writes_with_and_without_body_and_lets_reads_pass(
    environment: Environment,
) -> None:
    gate = Gate()
    async with Client.connect(environment.config(), fence=gate) as client:
        await client.create(config_map("before"))
        gate.closed = True
        with pytest.raises(LeaderElectionLost):
            await client.create(config_map("after"))
        with pytest.raises(LeaderElectionLost):
            await client.delete(CONFIG_MAP, "there", namespace="default")
        with pytest.raises(LeaderElectionLost):
            await client.impersonating("bob").create(config_map("after"))
        assert (await client.get(CONFIG_MAP, "there", namespace="default"))["metadata"][
            "name"
        ] == "there"
        gate.closed = False
        await client.delete(CONFIG_MAP, "before", namespace="default")
    assert written(environment) == [("create", 201), ("delete", 200)]


async def test_a_write_that_is_to_be_repeated_is_counted_again(environment: Environment) -> None:
    gate = Gate()

    async def close_meanwhile(_: float) -> None:
        gate.closed = True

    environment.proxy.add(Fail(429, retry_after=1), Match(verb="write"), times=None)
    transport = Transport(environment.config(), fence=gate, sleep=close_meanwhile)
    async with Client(transport) as client:
        with pytest.raises(LeaderElectionLost):
            await client.create(config_map("new"))
    assert written(environment) == [("create", 429)]


async def test_a_write_that_waited_is_checked_when_its_turn_comes(
    environment: Environment,
) -> None:
    gate = Gate()
    rule = environment.proxy.add(Delay(0.2), Match(verb="write"))
    options = TransportOptions(max_requests=1)
    async with Client.connect(environment.config(), options, fence=gate) as client:
        first = asyncio.create_task(client.create(config_map("first")))
        others = [asyncio.create_task(client.create(config_map(f"m{n}"))) for n in range(5)]
        await environment.proxy.wait_fired(rule)
        gate.closed = True
        await first
        outcomes = await asyncio.gather(*others, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [LeaderElectionLost] * 5
    assert written(environment) == [("create", 201)]


def test_bytes_leave_in_the_turn_in_which_the_fence_was_asked() -> None:
    """Nothing that the loop does next, and nothing that stops the process then, comes in between."""

    async def send() -> list[bool]:
        arrived = threading.Event()
        asked = 0
        left: list[bool] = []

        def ask() -> None:
            nonlocal asked
            asked += 1

        def long_turn() -> None:
            """Stand still from the last time that the fence was asked until the bytes arrive."""
            if asked == times and not left:
                left.append(arrived.wait(LIMIT))

        with listening(arrived) as port:
            async with Transport(Config(host=f"http://127.0.0.1:{port}"), fence=ask) as transport:
                await transport.request("POST", "/connect", body=b"{}")
                asked = 0
                await transport.request("POST", "/count", body=b"{}")
                times, asked = asked, 0
                arrived.clear()
                loop = asyncio.get_running_loop()
                request = loop.create_task(transport.request("POST", "/x", body=b"{}"))
                while not left and not request.done():  # a turn after each that may be the last
                    loop.call_soon(long_turn)
                    await asyncio.sleep(0)
                await request
        assert asked == times
        return left

    for run in (uvloop.run, asyncio.run):
        assert run(send()) == [True]


@contextmanager
def listening(arrived: threading.Event) -> Iterator[int]:
    """A server in a thread that answers every request at once, and reports each; its port."""
    with closing(create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=_serve, args=(server, arrived), daemon=True)
        thread.start()
        yield server.getsockname()[1]
    thread.join(LIMIT)


def _serve(server: socket, arrived: threading.Event) -> None:
    connection, _ = server.accept()
    with connection:
        while connection.recv(65536):
            arrived.set()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
