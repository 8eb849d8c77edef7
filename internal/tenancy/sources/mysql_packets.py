"""Packets of a MySQL server, of which no more is kept than the limits allow.

A row that is larger is read to its end in pieces, and its values are cut, so that its reader refuses that row alone.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Final

import aiomysql
from aiomysql.connection import _open_connection
from pymysql import err
from pymysql.constants import CR
from pymysql.protocol import MysqlPacket

from ctrlruntime.outbound_addresses import AddressRefused, outbound_socket
from internal.tenancy.sources.limits import (
    LARGEST_CELL,
    LARGEST_HANDSHAKE,
    LARGEST_LINE,
    LARGEST_REPLY,
    OVERSIZED,
    PeerExceedsLimits,
)

_CONTINUED: Final = 0xFFFFFF
"""Length of a packet that the next one continues."""
_HEAD: Final = 4
_PIECE: Final = 64 * 1024
_NULL: Final = 0xFB
_MOST_CELLS: Final = 4096
"""Columns of a table, by MySQL's own limit."""
_BEYOND: Final = "…"
"""A value behind those that make its row too large."""
_WIDTHS: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}
"""First byte of a length, by the number of bytes that follow."""
Demand = Callable[[bytes], None]


class BoundedConnection(aiomysql.Connection):  # type: ignore[misc]
    """A connection that raises PeerExceedsLimits where the server sends more than is kept."""

    demand_of_password: Demand | None = None
    """Sees each packet while the password is proved; what it raises ends the connection."""
    _authenticated = False
    _left = LARGEST_HANDSHAKE

    async def _connect(self) -> None:
        """Connect to an address that was checked. Raises AddressRefused and the driver's errors."""
        try:
            async with asyncio.timeout(self.connect_timeout):
                sock = await outbound_socket(self._host, self._port)
            self._reader, self._writer = await _open_connection(sock=sock)
            self._set_keep_alive()
            self._set_nodelay(True)
            self.host_info = f"socket {self._host}:{self._port}"
            self._next_seq_id = 0
            await self._get_server_information()
            await self._request_authentication()
            self.connected_time = self._loop.time()
            await self.query(self.init_command)
            await self.commit()
            await self.autocommit(self.autocommit_mode)
        except Exception as error:
            if self._writer:
                self._writer.transport.close()
            self._reader = self._writer = None
            if isinstance(error, OSError) and not isinstance(error, AddressRefused):
                raise err.OperationalError(CR.CR_CONN_HOST_ERROR, "cannot connect") from error
            raise

    async def _request_authentication(self) -> None:
        await super()._request_authentication()
        self._authenticated = True
        self._left = LARGEST_REPLY

    async def _execute_command(self, command: int, sql: object) -> None:
        await super()._execute_command(command, sql)
        self._left = LARGEST_REPLY if self._authenticated else LARGEST_HANDSHAKE

    async def _read_packet(self, packet_type: type[MysqlPacket] = MysqlPacket) -> MysqlPacket:
        """Read one packet. Beside rows, all packets of a command share one limit."""
        try:
            data = await self._read_payload()
        except asyncio.CancelledError:
            self._close_on_cancel()
            raise
        packet = packet_type(data, self._encoding)
        if packet.is_error_packet():
            if self._result is not None and self._result.unbuffered_active:
                self._result.unbuffered_active = False
            packet.raise_for_error()
        if self.demand_of_password is not None:
            self.demand_of_password(data)
        return packet

    async def _read_payload(self) -> bytes:
        payload = _Payload(self)
        await payload.begin()
        if self._reads_rows():
            return await (payload.whole() if payload.fits(LARGEST_CELL) else payload.row())
        self._left -= payload.left + _HEAD
        if self._left < 0 or not payload.last:
            self.close()
            raise PeerExceedsLimits(
                f"the database at {self._host}:{self._port} sends more than a server does beside rows; "
                "check that host and port are those of a MySQL server"
            )
        return await payload.whole()

    def _reads_rows(self) -> bool:
        return self._result is not None and bool(self._result.unbuffered_active)


class _Payload:
    """The content of one packet, and of those that continue it."""

    def __init__(self, connection: BoundedConnection) -> None:
        self._connection = connection
        self.left = 0
        """Bytes of the packet that were not read."""
        self.last = True
        """Whether no other packet continues it."""

    async def begin(self) -> None:
        """Read the head of a packet. Raises the driver's errors."""
        connection = self._connection
        head = await connection._read_bytes(_HEAD)
        low, high, number = struct.unpack("<HBB", head)
        if number != connection._next_seq_id:
            connection.close()  # a server that shuts down sends number 0
            raise aiomysql.OperationalError(CR.CR_SERVER_LOST, "packets are in another order")
        connection._next_seq_id = (number + 1) % 256
        self.left = low + (high << 16)
        self.last = self.left != _CONTINUED

    def fits(self, limit: int) -> bool:
        """Return whether all of it has at most so many bytes."""
        return self.last and self.left <= limit

    async def whole(self) -> bytes:
        """Return the rest of the packet."""
        size, self.left = self.left, 0
        return bytes(await self._connection._read_bytes(size))

    async def read(self, size: int) -> bytes:
        """Return that many bytes, or fewer at the end; at most _PIECE of them."""
        while not self.left and not self.last:
            await self.begin()
        size = min(size, self.left, _PIECE)
        self.left -= size
        return bytes(await self._connection._read_bytes(size)) if size else b""

    async def exactly(self, size: int) -> bytes:
        """Return that many bytes, or fewer at the end."""
        found = b""
        while len(found) < size and (piece := await self.read(size - len(found))):
            found += piece
        return found

    async def row(self) -> bytes:
        """Return the row with values replaced that are too large: LARGEST_LINE and one value at most."""
        found = bytearray()
        for _ in range(_MOST_CELLS):
            first = await self.exactly(1)
            if not first:
                break
            size = first[0]
            if size == _NULL:
                found += first
                continue
            if size > _NULL:
                size = int.from_bytes(await self.exactly(_WIDTHS.get(size, 0)), "little")
            value = await self._value(size, beyond=len(found) > LARGEST_LINE)
            found += b"\xfe" + len(value).to_bytes(8, "little") + value
        while await self.read(_PIECE):
            pass
        return bytes(found)

    async def _value(self, size: int, *, beyond: bool) -> bytes:
        """Return a value, or what stands for it if it is too large or `beyond` what is kept of a row."""
        if not beyond and size <= LARGEST_CELL:
            return await self.exactly(size)
        while size > 0 and (piece := await self.read(size)):
            size -= len(piece)
        return (_BEYOND if beyond else OVERSIZED).encode()
