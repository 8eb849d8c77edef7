"""Connections in memory: streams of bytes that come in order, late, or no more."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.envtest.simulation.process import Process, current

_FIRST_PORT: Final = 20_000
_FIRST_CLIENT_PORT: Final = 40_000
Delay = Callable[[], float]


@dataclass(frozen=True, slots=True)
class SimSocket:
    """A connection that can be opened: what stands in for a connected socket."""

    address: tuple[str, int]

    def close(self) -> None:
        """Close it; there is nothing to give back."""

    def fileno(self) -> int:
        """Return -1: it has no descriptor."""
        return -1

    def getsockname(self) -> tuple[str, int]:
        """Return the address that it leads to."""
        return self.address


class SimServer:
    """What `create_server` returns."""

    def __init__(
        self, network: Network, address: tuple[str, int], accept: Callable[[], Any]
    ) -> None:
        self.accept = accept
        self.context = contextvars.copy_context()
        self.sockets = [SimSocket(address)]
        self._network = network
        self._address = address

    def close(self) -> None:
        """Accept no more connections."""
        self._network.servers.pop(self._address, None)

    async def wait_closed(self) -> None:
        """Return at once."""

    def is_serving(self) -> bool:
        """Whether it accepts connections."""
        return self._address in self._network.servers


class Network:
    """All servers and connections of a simulation. ``delay`` draws the seconds that each piece is on its way."""

    def __init__(self, delay: Delay) -> None:
        self.delay = delay
        self.servers: dict[tuple[str, int], SimServer] = {}
        self.connections: list[Transport] = []
        """Those of clients that are open, in the order they were opened."""
        self.cut: dict[str, asyncio.Event] = {}
        """By the names of the processes from and to which nothing comes through for now: what is set at the end of that."""
        self._ports = _FIRST_PORT
        self._client_ports = _FIRST_CLIENT_PORT

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> SimServer:
        """Listen at ``port``, or at a free one for 0. Raises OSError where it is taken."""
        if not port:
            self._ports += 1
            port = self._ports
        address = (host, port)
        if address in self.servers:
            raise OSError(f"{host}:{port} is in use")
        server = self.servers[address] = SimServer(self, address, factory)
        return server

    async def connect_socket(self, address: tuple[str, int]) -> SimSocket:
        """Return once a server has been reached. Raises ConnectionRefusedError."""
        await asyncio.sleep(self.delay())
        process = current()
        while process is not None and (healed := self.cut.get(process.root.name)):
            await healed.wait()
        if address not in self.servers:
            raise ConnectionRefusedError(f"nothing listens at {address[0]}:{address[1]}")
        return SimSocket(address)

    def open(
        self, loop: asyncio.AbstractEventLoop, sock: SimSocket, factory: Callable[[], Any]
    ) -> tuple[Transport, Any]:
        """Make both ends of a connection. Raises ConnectionRefusedError."""
        server = self.servers.get(sock.address)
        if server is None:
            raise ConnectionRefusedError(f"nothing listens at {sock.address[0]}:{sock.address[1]}")
        self._client_ports += 1
        name = ("127.0.0.1", self._client_ports)
        protocol = factory()
        near = Transport(self, loop, contextvars.copy_context(), name, sock.address)
        far = Transport(self, loop, server.context.copy(), sock.address, name)
        near.connect(far, protocol)
        far.connect(near, server.accept())
        process = current()
        near.process = far.peer_process = process
        self.connections.append(near)
        if process is not None:
            process.on_death.append(near.vanish)
        far.begin()
        protocol.connection_made(near)
        return near, protocol

    def take_off(self, host: str, port: int) -> Callable[[], None]:
        """Break what is connected to a server, and let nothing connect. Return what undoes that."""
        server = self.servers.pop((host, port), None)
        for each in [*self.connections]:
            if each.get_extra_info("peername") == (host, port):
                each.reset()

        def back() -> None:
            if server is not None:
                self.servers.setdefault((host, port), server)

        return back

    def cut_off(self, process_name: str) -> None:
        """Begin a partition: nothing comes through from and to a process."""
        self.cut.setdefault(process_name, asyncio.Event())

    def release(self, process_name: str) -> None:
        """End a partition. Connections on which something got lost in it break; the others go on."""
        self.cut.pop(process_name).set()
        for each in [*self.connections]:
            owner = each.process
            if owner is not None and owner.root.name == process_name and each.waiting:
                each.reset()


class Transport(asyncio.Transport):
    """One end of a connection. What is written arrives in order at the other end."""

    def __init__(
        self,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
        name: tuple[str, int],
        peer_name: tuple[str, int],
    ) -> None:
        super().__init__({"sockname": name, "peername": peer_name})
        self.process: Process | None = None
        """The process that opened it; None on the server's side."""
        self.peer_process: Process | None = None
        self.silent = False
        """Whether nothing that the other end sends comes through, while the connection stays."""
        self.lag = 0.0
        """Seconds that everything for this end is late."""
        self._network = network
        self._loop = loop
        self._context = context
        self._protocol: Any = None
        self._peer: Transport
        self._incoming: deque[bytes | None] = deque()
        """What is on its way to this end; None is the end of the stream."""
        self._latest = 0.0
        """When the last piece arrives: the next one arrives no sooner."""
        self._under_way = 0
        self._reading = True
        self._closing = False
        self._lost = False

    # -- life ------------------------------------------------------------------------------------------

    def connect(self, peer: Transport, protocol: asyncio.BaseProtocol) -> None:
        """Name the other end."""
        self._peer = peer
        self._protocol = protocol

    def begin(self) -> None:
        """Report the connection to the protocol."""
        self._loop.call_soon(self._protocol.connection_made, self, context=self._context)

    def vanish(self) -> None:
        """End it as the kernel does for a process that is gone: what was written arrives, then the end."""
        self._lost = self._closing = True
        self._forget()
        self._peer.send(None)

    def reset(self) -> None:
        """Break the connection at both ends at once."""
        error = ConnectionResetError("Connection reset by peer")
        self._lose(error)
        self._peer._lose(error)

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._forget()
        self._incoming.clear()
        self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)

    def _forget(self) -> None:
        if self._lost and self._peer._lost:
            for end in (self, self._peer):
                if end in self._network.connections:
                    self._network.connections.remove(end)

    @property
    def peer(self) -> Transport:
        """The other end."""
        return self._peer

    def speak(self) -> None:
        """Let through what was held back because the connection was silent, and be late no more."""
        self.lag = 0.0
        if self.silent:
            self.silent = False
            self.flush()

    # -- what arrives ------------------------------------------------------------------------------------

    def send(self, data: bytes | None) -> None:
        """Have data arrive at this end, after what is on its way already."""
        if self._lost:
            return
        self._incoming.append(data)
        self._plan(self._network.delay() + self.lag)

    def _plan(self, delay: float) -> None:
        self._latest = max(self._loop.time() + delay, self._latest)
        self._under_way += 1
        self._loop.call_at(self._latest, self._arrive, context=self._context)

    def _arrive(self) -> None:
        self._under_way -= 1
        if self._held or not self._incoming or self._lost:
            return
        data = self._incoming.popleft()
        if data is None:
            self._end()
        else:
            self._deliver(data)

    @property
    def _held(self) -> bool:
        owner = self.process or self.peer_process
        partitioned = owner is not None and owner.root.name in self._network.cut
        return self.silent or partitioned or not self._reading

    def _deliver(self, data: bytes) -> None:
        protocol = self._protocol
        if not hasattr(protocol, "get_buffer"):
            protocol.data_received(data)
            return
        left = memoryview(data)
        while left and not self._lost:
            buffer = protocol.get_buffer(len(left))
            size = min(len(buffer), len(left))
            buffer[:size] = left[:size]
            protocol.buffer_updated(size)
            left = left[size:]

    def _end(self) -> None:
        if self._protocol.eof_received():
            return
        self.close()

    @property
    def waiting(self) -> bool:
        """Whether either end has something that does not come through."""
        return any(len(end._incoming) > end._under_way for end in (self, self._peer))

    def flush(self) -> None:
        """Let what was held back at either end arrive."""
        for end in (self, self._peer):
            for _ in range(len(end._incoming) - end._under_way):
                end._plan(0.0)

    # -- the interface of asyncio ---------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing and data:
            self._peer.send(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._peer.send(None)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits to be written."""

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.flush()

    def is_reading(self) -> bool:
        return self._reading

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._lost:
            self._peer.send(None)
        self._lose(None)

    def abort(self) -> None:
        self.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol
