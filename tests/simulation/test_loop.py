"""The loop, its network and its processes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from ctrlruntime.envtest.simulation.loop import START, Forbidden, Livelock, NothingLeft, SimLoop
from ctrlruntime.envtest.simulation.network import Network, Transport
from ctrlruntime.envtest.simulation.process import Process
from ctrlruntime.envtest.simulation.trace import Trace


@pytest.fixture
def virtual() -> Iterator[SimLoop]:
    """A loop whose connections take 0.01 s."""
    made = SimLoop(Network(lambda: 0.01), Trace())
    yield made
    made.close()


def test_time_is_virtual_and_timers_of_one_moment_keep_their_order(virtual: SimLoop) -> None:
    fired: list[int] = []

    async def main() -> None:
        running = asyncio.get_running_loop()
        for number in range(100):
            running.call_at(START + 3600, fired.append, number)
        await asyncio.sleep(3600)

    virtual.run_until_complete(main())
    assert (fired, virtual.time()) == ([*range(100)], START + 3600)


async def _in_circles() -> None:
    running = asyncio.get_running_loop()

    def again() -> None:
        running.call_soon(again)

    again()
    await running.create_future()


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def _a_socket() -> None:
    with socket.socket() as sock:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", 1))


async def _a_program() -> None:
    await asyncio.create_subprocess_exec("true")


@pytest.mark.parametrize(
    ("main", "error"),
    [
        (_in_circles, Livelock),
        (_for_ever, NothingLeft),
        (_a_socket, Forbidden),
        (_a_program, Forbidden),
    ],
)
def test_what_no_seed_decides_ends_the_run(
    virtual: SimLoop, main: Callable[[], Awaitable[None]], error: type[Exception]
) -> None:
    with pytest.raises(error):
        virtual.run_until_complete(main())


def test_what_would_be_a_thread_is_a_later_step(virtual: SimLoop) -> None:
    async def main() -> int:
        return await asyncio.to_thread(lambda: 7)

    assert virtual.run_until_complete(main()) == 7


def test_a_killed_process_runs_no_clean_up_and_a_paused_one_goes_on_later(virtual: SimLoop) -> None:
    seen: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(10)
            seen.append(f"{name} at {asyncio.get_running_loop().time() - START:g}")
        finally:
            seen.append(f"{name} cleans up")

    async def main() -> None:
        killed, paused = Process("killed"), Process("paused")
        for process in (killed, paused):
            virtual.create_task(work(process.name), context=process.context())
        await asyncio.sleep(1)
        killed.kill()
        paused.pause()
        await asyncio.sleep(30)
        virtual.wake(paused.resume())
        await asyncio.sleep(1)

    virtual.run_until_complete(main())
    assert seen == ["paused at 31", "paused cleans up"]


class _Peer(asyncio.Protocol):
    """Notes what arrives, and when."""

    def __init__(self) -> None:
        self.arrived: list[Any] = []

    def data_received(self, data: bytes) -> None:
        self.arrived.append((round(asyncio.get_running_loop().time() - START, 2), data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.arrived.append(type(exc).__name__)


async def _connected() -> tuple[Transport, _Peer, Transport, _Peer]:
    server = _Peer()
    running = asyncio.get_running_loop()
    listening = await running.create_server(lambda: server, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    near, client = await running.create_connection(_Peer, "127.0.0.1", port)
    assert isinstance(near, Transport)
    return near, client, near.peer, server


def test_a_silent_connection_loses_nothing(virtual: SimLoop) -> None:
    async def main() -> list[Any]:
        near, client, far, _ = await _connected()
        near.silent = True
        far.write(b"one")
        far.write(b"two")
        await asyncio.sleep(5)
        near.speak()
        far.write(b"three")
        await asyncio.sleep(1)
        return client.arrived

    assert virtual.run_until_complete(main()) == [(5.01, b"one"), (5.01, b"two"), (5.02, b"three")]


def test_a_reset_ends_both_ends_and_a_close_delivers_what_was_written(virtual: SimLoop) -> None:
    async def main() -> list[list[Any]]:
        near, client, far, server = await _connected()
        near.write(b"lost")
        far.reset()
        another, _, _, peer = await _connected()
        another.write(b"arrives")
        another.close()
        await asyncio.sleep(1)
        return [client.arrived, server.arrived, [each for *_, each in peer.arrived[:1]]]

    lost = ["ConnectionResetError"]
    assert virtual.run_until_complete(main()) == [lost, lost, [b"arrives"]]


def test_nothing_listens_at_an_unknown_port(virtual: SimLoop) -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_connection(_Peer, "127.0.0.1", 1)

    with pytest.raises(ConnectionRefusedError, match=r"nothing listens at 127\.0\.0\.1:1"):
        virtual.run_until_complete(main())
