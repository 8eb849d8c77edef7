"""Rows of a MySQL-compatible database, by aiomysql.

One statement, read unbuffered in a read-only transaction of its own snapshot: rows keep coming page by page
from the state at its start, with NULL and repeated uids in it, which paging by key would lose.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import aiomysql
from pymysql import err
from pymysql.constants import CLIENT, FIELD_TYPE

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
from internal.tenancy.sources.limits import LARGEST_CELL, OVERSIZED, PeerExceedsLimits, bounded
from internal.tenancy.sources.mysql_packets import BoundedConnection
from internal.tenancy.sources.source import LARGEST_PAGE, Page, Source, size, text
from internal.tenancy.sources.source_type import SourceContext
from internal.tenancy.sources.tls import TLSSettings, client_context, read_tls

PROVING: Final = frozenset({"", "mysql_native_password", "caching_sha2_password", "client_ed25519"})
"""Plugins by which a client proves the password. With `caching_sha2_password` the server may demand it all the same.

The server chooses how a client authenticates. All other plugins demand the password: as it is, in a form that can
be reversed, or encrypted by a key that the server itself sends.
"""
PERFORM_FULL_AUTHENTICATION: Final = b"\x01\x04"
"""By this `caching_sha2_password` demands the password itself."""

_DENIED = frozenset({1044, 1045, 1130, 1131, 1142, 1143, 1227, 1251, 1698, 1820, 1862, 4151})
_UNKNOWN_TABLE = frozenset({1049, 1051, 1146})
_BROKEN_VIEW = 1356
_UNKNOWN_COLUMN = frozenset({1054})
_TIMED_OUT = frozenset({1205, 1969, 3024})
_LOST = frozenset(
    {1040, 1053, 1152, 1158, 1159, 1160, 1161, 2002, 2003, 2005, 2006, 2013, 2014, 4031}
)
"""4031: MySQL 8.0.24 and later, of a connection that was idle for `wait_timeout`."""
_NOT_SUPPORTED = 1235
_WIDE = re.compile(r"(?:medium|long)(?:text|blob)|json|geometry", re.IGNORECASE)
"""Types whose values may be larger than what is kept; a VARCHAR has at most 64 KiB."""
_LONGEST_BITS = 64
IDLE_SECONDS = 300
MOST_KILL_SECONDS = 10.0
BREATH = 50
"""Rows decoded before other tasks get a turn: 5 to 25 ms."""
NO_LIMIT = 2**64 - 1
"""A server's own `sql_select_limit` would end a result early and without an error."""
_SESSION = (
    f"SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', sql_select_limit = {NO_LIMIT}"
    " /*M!100101 , max_statement_time = {0} */ /*!50708 , max_execution_time = {1} */"
)
"""What would make rows another text, or states cut, by a setting of the server. MariaDB reads the first comment, MySQL the second."""
_ISOLATION = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


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
    statement_timeout: float = 60.0
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
            statement_timeout=fields.statement_timeout_seconds,
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
        kept = self._pool is not None and self._pool.freesize > 0
        begun = False
        try:
            async with aclosing(self._query(columns)) as pages:
                async for page in pages:
                    begun = True
                    yield page
        except Unreachable:
            if begun or not kept:
                raise
            await self.close()
            async with aclosing(self._query(columns)) as pages:
                async for page in pages:
                    yield page

    async def column_names(self) -> Sequence[str]:
        """See ListsColumns: those that the user has a right to."""
        async with (
            self._connection() as connection,
            self._errors(self._settings.read_timeout, "answer"),
        ):
            return list(await self._types(connection))

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

    async def _query(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        async with self._connection() as connection:
            async with self._errors(self._settings.read_timeout, "answer"):
                types = await self._begin(connection)
            async with aclosing(self._read(connection, types, columns)) as pages:
                async for page in pages:
                    yield page
            async with self._errors(self._settings.read_timeout, "answer"):
                await connection.commit()

    async def _begin(self, connection: aiomysql.Connection) -> dict[str, str]:
        """Begin the snapshot, and return the types of the columns.

        The level is set for each transaction: under READ UNCOMMITTED, which a server may have as its own, rows of a
        deletion that is not committed would be gone.
        """
        await connection.query(_ISOLATION)
        try:
            await connection.query(f"{_BEGIN}, READ ONLY")
        except err.MySQLError as error:
            if error.args[0] != _NOT_SUPPORTED:  # TiDB has snapshots, and no such transactions
                raise
            await connection.query(_BEGIN)
        return await self._types(connection)

    async def _types(self, connection: aiomysql.Connection) -> dict[str, str]:
        cursor = await connection.cursor()
        await cursor.execute(f"SHOW COLUMNS FROM {relation(self._settings.table)}")
        found = {str(name): str(kind) for name, kind, *_ in await cursor.fetchall()}
        await cursor.close()
        return found

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """Yield a connection for one query. After an error it is closed, not put back."""
        async with self._errors(self._settings.connect_timeout * 2, "connect"):
            pool = self._pool = self._pool or GuardedPool(
                minsize=0,
                maxsize=self._settings.pool_size,
                pool_recycle=IDLE_SECONDS,
                **self._connection_options(),
            )
            connection = await pool.acquire()
        clean = False
        try:
            self._check_encryption(connection)
            yield connection
            clean = True
        except (TimedOut, GeneratorExit, asyncio.CancelledError):
            await self._kill_query(connection)
            raise
        finally:
            writer = connection._writer
            if not clean:
                connection.close()
            pool.release(connection)
            if not clean:
                await _closed([writer])

    async def _kill_query(self, connection: aiomysql.Connection) -> None:
        """End what a connection still runs: a server that computes does not notice that its client has gone.

        Where this fails, the server ends it after `statement_timeout`.
        """
        killer = GuardedConnection(**self._connection_options())
        try:
            async with asyncio.timeout(min(self._settings.connect_timeout, MOST_KILL_SECONDS)):
                await killer._connect()
                self._check_encryption(killer)
                await killer.query(f"KILL QUERY {int(connection.thread_id())}")
        except (OSError, err.MySQLError, SourceError):
            pass
        finally:
            killer.close()

    def _check_encryption(self, connection: aiomysql.Connection) -> None:
        writer = connection._writer
        if self._settings.tls and (writer is None or writer.get_extra_info("cipher") is None):
            raise InsecureConnection("the database offers no TLS, which the registry requires")

    async def _read(
        self, connection: aiomysql.Connection, types: Mapping[str, str], columns: Sequence[str]
    ) -> AsyncGenerator[Page, None]:
        statement = select(self._settings.table, columns, types)
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

    def _connection_options(self) -> dict[str, Any]:
        settings = self._settings
        milliseconds = int(settings.statement_timeout * 1000)
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
            "init_command": _SESSION.format(milliseconds / 1000, milliseconds),
            "ssl": None if settings.tls is None else client_context(settings.tls),
            "echo": False,
            "loop": asyncio.get_running_loop(),
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
        if code == _BROKEN_VIEW:
            return UnknownTable(
                f"the view {settings.table!r} uses a table, column or function that is gone, or that its definer may "
                f"not use (error {code}); SHOW CREATE VIEW shows what it selects"
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


def select(table: str, columns: Sequence[str], types: Mapping[str, str]) -> str:
    """Return the one statement: mapped columns only, cut where a value would be refused as too large.

    Without an order: MySQL fails to sort rows that are wider than its sort buffer.
    """
    wide = {name.lower() for name, kind in types.items() if _WIDE.match(kind)}
    listed = ", ".join(
        f"LEFT({quote(column)}, {LARGEST_CELL})" if column.lower() in wide else quote(column)
        for column in columns
    )
    return f"SELECT {listed} FROM {relation(table)}"  # noqa: S608


def relation(table: str) -> str:
    """Return a table with or without its database, quoted."""
    return ".".join(quote(part) for part in table.split(".", 1))


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


class GuardedConnection(BoundedConnection):
    """A connection that refuses to reveal the password. Raises InsecureConnection."""

    async def _request_authentication(self) -> None:
        """Check TLS and plugin of the server's greeting before anything is sent."""
        if self._ssl_context and not self.server_capabilities & CLIENT.SSL:
            raise InsecureConnection("the database offers no TLS, which the registry requires")
        self._check(self._client_auth_plugin or self._server_auth_plugin)
        if not self.server_capabilities & CLIENT.PLUGIN_AUTH:
            self._check("mysql_old_password")
        await super()._request_authentication()

    async def _process_auth(self, plugin_name: bytes, auth_packet: object) -> object:
        """Check the plugin that the server switches to."""
        self._check(plugin_name.decode("ascii", "replace"))
        return await super()._process_auth(plugin_name, auth_packet)

    async def caching_sha2_password_auth(self, pkt: object) -> object:
        """Refuse to send the password itself, or to encrypt it by a key that the server sends."""
        self.demand_of_password = self._check_demand
        try:
            if not pkt.is_auth_switch_request():  # type: ignore[attr-defined]
                self._check_demand(pkt.get_all_data())  # type: ignore[attr-defined]
            return await super().caching_sha2_password_auth(pkt)
        finally:
            self.demand_of_password = None

    def _check_demand(self, packet: bytes) -> None:
        if packet[:2] == PERFORM_FULL_AUTHENTICATION and self._password:
            self._check("caching_sha2_password, full authentication", proving=False)

    def _check(self, plugin: str, *, proving: bool = True) -> None:
        context = self._ssl_context
        if (proving and plugin in PROVING) or (
            context and context.verify_mode is ssl.CERT_REQUIRED
        ):
            return
        raise InsecureConnection(
            f"the database at {self._host}:{self._port} demands the password itself, not a proof of it "
            f"({plugin[:64]}); set tls with the mode VerifyCA or VerifyIdentity and its CA in caRef, "
            "or give the user the plugin mysql_native_password"
        )


class GuardedPool(aiomysql.Pool):  # type: ignore[misc]
    """A pool of such connections, without any at first."""

    async def _fill_free_pool(self, override_min: bool) -> None:
        """Drop dead connections, and connect if none is left and one more is allowed."""
        await super()._fill_free_pool(False)
        if self._free or not override_min or self.size >= self.maxsize:
            return
        self._acquiring += 1
        try:
            made = GuardedConnection(echo=self._echo, loop=self._loop, **self._conn_kwargs)
            await made._connect()
            self._free.append(made)
            self._cond.notify()
        finally:
            self._acquiring -= 1
