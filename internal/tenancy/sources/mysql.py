"""Rows of a MySQL-compatible database, by aiomysql.

One statement, read unbuffered, is one consistent snapshot: rows keep coming page by page from the
state at its start, with NULL and repeated uids in it, which paging by key would lose.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import aiomysql
from pymysql import err
from pymysql.constants import FIELD_TYPE

from apis.tenancy import MySQLSource as Fields
from ctrlruntime.outbound_addresses import AddressRefused
from internal.tenancy.rows.row import Row
from internal.tenancy.sources.errors import (
    AccessDenied,
    InsecureConnection,
    NotAllowed,
    SourceError,
    TimedOut,
    UnknownColumn,
    UnknownTable,
    Unreachable,
)
from internal.tenancy.sources.limits import OVERSIZED, PeerExceedsLimits, bounded
from internal.tenancy.sources.mysql_auth import GuardedPool
from internal.tenancy.sources.source import LARGEST_PAGE, Page, Source, size, text
from internal.tenancy.sources.source_type import SourceContext
from internal.tenancy.sources.tls import TLSSettings, client_context, read_tls

_DENIED = frozenset({1044, 1045, 1130, 1131, 1142, 1143, 1227, 1251, 1698, 4151})
_UNKNOWN_TABLE = frozenset({1049, 1051, 1146, 1356})
_UNKNOWN_COLUMN = frozenset({1054})
_TIMED_OUT = frozenset({1205, 1969, 3024})
_LOST = frozenset({1040, 1053, 1152, 1158, 1159, 1160, 1161, 2002, 2003, 2005, 2006, 2013, 2014})
_COLUMNS = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
)
_LONGEST_BITS = 64
IDLE_SECONDS = 300
BREATH = 50
"""Rows decoded before other tasks get a turn: 5 to 25 ms."""
NO_LIMIT = 2**64 - 1
"""A server's own `sql_select_limit` would end a result early and without an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MySQLSettings:
    """Everything a connection depends on: a change of any makes a new pool. Times in seconds."""

    host: str
    port: int = 3306
    username: str
    password: str = field(default="", repr=False)
    database: str
    table: str
    tls: TLSSettings | None = None
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    pool_size: int = 3
    page_size: int = 1000

    @classmethod
    async def of(cls, fields: Fields, context: SourceContext) -> MySQLSettings:
        """Return the settings as the registry has them. Raises SourceError for a missing Secret."""
        return cls(
            host=fields.host,
            port=fields.port,
            username=fields.username,
            password=await context.secret(fields.password_ref) or "",
            database=fields.database,
            table=fields.table,
            tls=await read_tls(fields.tls, context),
            connect_timeout=fields.connect_timeout_seconds,
            read_timeout=fields.read_timeout_seconds,
            pool_size=fields.pool_size,
            page_size=fields.page_size,
        )

    def open(self, wake: Callable[[], None]) -> Source:
        """See Settings. MySQL has no notifications: `wake` is never called."""
        return MySQLSource(self)


class MySQLSource:
    """A table or view; its pool is made at the first query and kept until `close`."""

    def __init__(self, settings: MySQLSettings) -> None:
        self._settings = settings
        self._pool: Any = None

    async def pages(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        """See Source. A kept connection that turns out dead is replaced once, before any row."""
        statement = select(self._settings.table, columns)
        kept = self._pool is not None and self._pool.freesize > 0
        begun = False
        try:
            async with aclosing(self._query(statement, columns)) as pages:
                async for page in pages:
                    begun = True
                    yield page
        except Unreachable:
            if begun or not kept:
                raise
            await self.close()
            async with aclosing(self._query(statement, columns)) as pages:
                async for page in pages:
                    yield page

    async def column_names(self) -> Sequence[str]:
        """See ListsColumns: those that the user has a right to."""
        schema, _, name = self._settings.table.rpartition(".")
        async with (
            self._connection() as connection,
            self._errors(self._settings.read_timeout, "answer"),
        ):
            cursor = await connection.cursor()
            await cursor.execute(_COLUMNS, (schema or self._settings.database, name))
            found = await cursor.fetchall()
            await cursor.close()
        return [str(row[0]) for row in found]

    async def execute(self, statement: str, values: Sequence[str]) -> None:
        """Run one statement that returns no rows, with its parameters. Raises SourceError."""
        async with (
            self._connection() as connection,
            self._errors(self._settings.read_timeout, "answer"),
        ):
            cursor = await connection.cursor()
            await cursor.execute(statement, values)
            await cursor.close()

    async def close(self) -> None:
        """Close all connections."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        writers = [connection._writer for connection in (*pool._free, *pool._used)]
        pool.terminate()
        await pool.wait_closed()
        await _closed(writers)

    async def _query(self, statement: str, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        async with (
            self._connection() as connection,
            aclosing(self._read(connection, statement, columns)) as pages,
        ):
            async for page in pages:
                yield page

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """Yield a connection for one query. After an error it is closed, not put back."""
        async with self._errors(self._settings.connect_timeout * 2, "connect"):
            pool = self._pool = self._pool or GuardedPool(**self._options())
            connection = await pool.acquire()
        clean = False
        try:
            self._check_encryption(connection)
            yield connection
            clean = True
        finally:
            writer = connection._writer
            if not clean:
                connection.close()
            pool.release(connection)
            if not clean:
                await _closed([writer])

    def _check_encryption(self, connection: aiomysql.Connection) -> None:
        writer = connection._writer
        if self._settings.tls and (writer is None or writer.get_extra_info("cipher") is None):
            raise InsecureConnection("the database offers no TLS, which the registry requires")

    async def _read(
        self, connection: aiomysql.Connection, statement: str, columns: Sequence[str]
    ) -> AsyncGenerator[Page, None]:
        cursor = await connection.cursor(aiomysql.SSCursor)
        async with self._errors(self._settings.read_timeout, "answer"):
            await cursor.execute(statement)
        while True:
            async with self._errors(self._settings.read_timeout, "send its rows"):
                page = await self._page(cursor, columns)
            if not page:
                break
            yield page
        await cursor.close()

    async def _page(self, cursor: aiomysql.SSCursor, columns: Sequence[str]) -> Page:
        page: Page = []
        weight = 0
        while len(page) < self._settings.page_size and weight < LARGEST_PAGE:
            found = await cursor.fetchone()
            if found is None:
                break
            if len(found) != len(columns):
                raise PeerExceedsLimits(
                    f"the database sends {len(found)} columns, not {len(columns)}"
                )
            values = bounded([text(value) for value in found])
            weight += size(values)
            page.append(Row(dict(zip(columns, values, strict=True))))
            if len(page) % BREATH == 0:  # what has arrived is decoded without a wait
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        return page

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "host": settings.host,
            "port": settings.port,
            "user": settings.username,
            "password": settings.password,
            "db": settings.database,
            "charset": "utf8mb4",
            "connect_timeout": settings.connect_timeout,
            "autocommit": True,
            "conv": _CONVERTERS,
            "init_command": f"SET time_zone = '+00:00', sql_select_limit = {NO_LIMIT}",
            "ssl": None if settings.tls is None else client_context(settings.tls),
            "minsize": 0,
            "maxsize": settings.pool_size,
            "echo": False,
            "loop": asyncio.get_running_loop(),
            "pool_recycle": IDLE_SECONDS,
        }

    @contextlib.asynccontextmanager
    async def _errors(self, seconds: float, action: str) -> AsyncIterator[None]:
        """Bound what is inside and convert drivers' errors."""
        place = f"{self._settings.host}:{self._settings.port}"
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            message = f"the database at {place} did not {action} within {seconds:g} s"
            raise (Unreachable if action == "connect" else TimedOut)(message) from None
        except AddressRefused as error:
            raise NotAllowed(
                f"the database at {place} is not connected to: {error.strerror}"
            ) from None
        except err.MySQLError as error:
            raise self._translated(error, place) from None
        except ssl.SSLError as error:
            raise _tls_error(place, error) from None
        except UnicodeError:
            raise Unreachable(
                f"spec.source.mysql.host: {self._settings.host!r} cannot be the name of a host"
            ) from None
        except (OSError, asyncio.IncompleteReadError, EOFError):
            raise Unreachable(f"the database at {place} cannot be reached") from None
        except (ValueError, LookupError, TypeError, AssertionError, ArithmeticError, struct.error):
            raise Unreachable(
                f"what answers at {place} is no MySQL server; check host and port"
            ) from None
        except (RuntimeError, AttributeError) as error:
            # aiomysql says so of connections that its server closed.
            raise Unreachable(
                f"the connection to the database at {place} was lost ({type(error).__name__})"
            ) from None

    def _translated(self, error: err.MySQLError, place: str) -> SourceError:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        settings = self._settings
        if isinstance(error.__cause__, ssl.SSLError):
            return _tls_error(place, error.__cause__)
        if code in _DENIED:
            return AccessDenied(
                f"the database at {place} denies access to user {settings.username!r} "
                f"(error {code}); check username, passwordRef and the SELECT privilege"
            )
        if code in _UNKNOWN_TABLE:
            return UnknownTable(
                f"{settings.database!r} has no usable table or view {settings.table!r} "
                f"(error {code})"
            )
        if code in _UNKNOWN_COLUMN:
            return UnknownColumn(
                f"table {settings.table!r} has no column {_named(error)}; check valueMappings and "
                "extraValueMappings"
            )
        if code in _TIMED_OUT:
            return TimedOut(f"the database at {place} ended the query after its own time limit")
        if code in _LOST or isinstance(error, err.InterfaceError):
            return Unreachable(f"the database at {place} cannot be reached (error {code})")
        return SourceError(f"the query failed with error {code} of the database at {place}")


async def _closed(writers: Sequence[Any]) -> None:
    """Wait until closed connections have given up their sockets, which aiomysql does not."""
    for writer in writers:
        if writer is not None:
            with contextlib.suppress(OSError, TimeoutError, ssl.SSLError):
                async with asyncio.timeout(1.0):
                    await writer.wait_closed()


def select(table: str, columns: Sequence[str]) -> str:
    """Return the one statement: mapped columns only, in a stable order."""
    quoted = ", ".join(quote(column) for column in columns)
    place = ".".join(quote(part) for part in table.split(".", 1))
    return f"SELECT {quoted} FROM {place} ORDER BY {quoted}"  # noqa: S608


def quote(identifier: str) -> str:
    """Return an identifier in backticks, its own doubled."""
    return "`" + identifier.replace("\0", "").replace("`", "``") + "`"


def _tls_error(place: str, error: ssl.SSLError) -> InsecureConnection:
    why = getattr(error, "verify_message", "") or "the handshake failed"
    return InsecureConnection(f"no secure connection to the database at {place}: {why}")


def _named(error: err.MySQLError) -> str:
    """Return the column as the server names it: `Unknown column 'x' in 'field list'`."""
    parts = str(error.args[1] if len(error.args) > 1 else "").split("'")
    return repr(parts[1]) if len(parts) > 2 else "of that name"


def _bits(value: bytes) -> str:
    """Return the number of a BIT, which has 64 bits at most."""
    return str(int.from_bytes(value, "big")) if len(value) <= _LONGEST_BITS else OVERSIZED


def _moment(value: str) -> str:
    """Return a DATETIME or TIMESTAMP in UTC as RFC 3339; zero dates stay as they are."""
    if value.startswith("0000"):
        return value
    day, _, clock = value.partition(" ")
    if "." in clock:
        clock = clock.rstrip("0").rstrip(".")
    return f"{day}T{clock}Z"


_CONVERTERS: dict[Any, Any] = {
    FIELD_TYPE.BIT: _bits,
    FIELD_TYPE.DATETIME: _moment,
    FIELD_TYPE.TIMESTAMP: _moment,
}
"""All other types stay the text that the server sends."""
