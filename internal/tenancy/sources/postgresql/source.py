"""A table or view of a PostgreSQL database: one COPY of one read-only snapshot.

`COPY (SELECT ...) TO STDOUT` sends rows as fast as they are taken, whatever they weigh, with NULL and
repeated uids in it, which paging by key would lose. See docs/decisions/data-sources.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from apis.tenancy import PostgreSQLSource as Fields
from ctrlruntime.outbound_addresses import AddressRefused
from internal.tenancy.rows.row import Row
from internal.tenancy.sources.errors import (
    AccessDenied,
    InsecureConnection,
    NotAllowed,
    ReplicaBehind,
    SourceError,
    TimedOut,
    UnknownColumn,
    UnknownTable,
    Unreachable,
)
from internal.tenancy.sources.limits import LARGEST_MESSAGE, PeerExceedsLimits, bounded
from internal.tenancy.sources.postgresql.auth import connect, too_large
from internal.tenancy.sources.postgresql.columns import (
    COLUMNS,
    ColumnKind,
    kind_of,
    relation,
    select,
    values,
)
from internal.tenancy.sources.postgresql.listener import Listener
from internal.tenancy.sources.postgresql.position import POSITION, Position
from internal.tenancy.sources.source import LARGEST_PAGE, Page, Source, size
from internal.tenancy.sources.source_type import SourceContext
from internal.tenancy.sources.tls import TLSSettings, client_context, read_tls

CLOSE_SECONDS = 1.0
CATCH_UP_SECONDS = 5.0
"""How long a query waits for a replica that lags behind the reading before."""
CATCH_UP_PERIOD = 0.1

_DENIED = frozenset({"28000", "28P01", "42501"})
_UNKNOWN_TABLE = frozenset({"3D000", "3F000", "42P01"})
_CONFLICT = frozenset({"40001", "40P01"})
_TIMED_OUT = "57014"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgreSQLSettings:
    """Everything a connection depends on: a change of any makes a new source. Times in seconds."""

    host: str
    port: int = 5432
    username: str
    password: str = field(default="", repr=False)
    database: str
    table: str
    tls: TLSSettings | None = None
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    statement_timeout: float = 60.0
    page_size: int = 1000
    notify_channel: str | None = None

    @classmethod
    async def of(cls, fields: Fields, context: SourceContext) -> PostgreSQLSettings:
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
            page_size=fields.page_size,
            notify_channel=fields.notify_channel,
        )

    def open(self, wake: Callable[[], None]) -> Source:
        """See Settings."""
        return PostgreSQLSource(self, wake)


class PostgreSQLSource:
    """A table or view; its connection is made at the first query and kept until `close`."""

    def __init__(
        self,
        settings: PostgreSQLSettings,
        wake: Callable[[], None] = lambda: None,
        *,
        catch_up_seconds: float = CATCH_UP_SECONDS,
    ) -> None:
        self._settings = settings
        self._catch_up_seconds = catch_up_seconds
        self._kept: Any = None
        self.read_up_to: Position | None = None
        """How far the last reading had got; older rows are not read any more."""
        self._earlier: dict[str, Position] = {}
        """The furthest of the positions that were resumed, by the system that has it."""
        channel = settings.notify_channel
        self.listener = Listener(channel, self._connected, wake) if channel else None
        """Wakes up at notifications, once rows have been read; None without a channel."""

    @property
    def position(self) -> str:
        """See KeepsPosition."""
        return "" if self.read_up_to is None else str(self.read_up_to)

    def resume(self, position: str) -> None:
        """See KeepsPosition."""
        found = Position.parse(position)
        if found is None:
            return
        furthest = max(self._earlier.get(found.system, found), found, key=Position.place)
        self._earlier[found.system] = furthest
        self.read_up_to = furthest

    async def pages(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        """See Source. A kept connection that turns out dead is replaced once, before any row."""
        kept = self._kept is not None
        begun = False
        try:
            async with aclosing(self._query(columns)) as pages:
                async for page in pages:
                    begun = True
                    yield page
        except Unreachable:
            if begun or not kept:
                raise
            async with aclosing(self._query(columns)) as pages:
                async for page in pages:
                    yield page
        if self.listener is not None:
            self.listener.start()

    async def column_names(self) -> Sequence[str]:
        """See ListsColumns."""
        async with (
            self._connection() as connection,
            self._errors(self._settings.read_timeout, "answer"),
        ):
            found = await connection.fetch(COLUMNS, relation(self._settings.table))
        return [str(name) for name, *_ in found]

    async def execute(self, statement: str, *values: Sequence[str]) -> None:
        """Run one statement that returns no rows, with its parameters. Raises SourceError."""
        async with (
            self._connection() as connection,
            self._errors(self._settings.read_timeout, "answer"),
        ):
            await connection.execute(statement, *values)

    async def close(self) -> None:
        """Close all connections."""
        if self.listener is not None:
            await self.listener.close()
        kept, self._kept = self._kept, None
        if kept is not None:
            await _close(kept)

    async def _query(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        async with self._connection() as connection:
            await self._caught_up(connection)
            async with self._errors(self._settings.read_timeout, "answer"):
                kinds = await self._begin(connection, columns)
            async with aclosing(self._copy(connection, kinds)) as pages:
                async for page in pages:
                    yield page
            async with self._errors(self._settings.read_timeout, "answer"):
                await connection.execute("COMMIT")
            self.read_up_to = await self._position(connection) or self.read_up_to

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """Yield the kept connection, or a new one, for one query. After an error it is closed, not kept."""
        connection, self._kept = self._kept, None
        if connection is None or connection.is_closed():
            connection = await self._connected()
        clean = False
        try:
            yield connection
            clean = True
        finally:
            if clean:
                self._kept = connection
            else:
                await _close(connection)

    async def _connected(self) -> asyncpg.Connection:
        settings = self._settings
        tls = None if settings.tls is None else client_context(settings.tls)
        async with self._errors(settings.connect_timeout, "connect"):
            return await connect(
                host=settings.host,
                port=settings.port,
                username=settings.username,
                password=settings.password,
                database=settings.database,
                context=tls,
            )

    async def _caught_up(self, connection: asyncpg.Connection) -> None:
        """Wait until the server has what was read before. Raises ReplicaBehind."""
        if self.read_up_to is None:
            return
        deadline = asyncio.get_running_loop().time() + self._catch_up_seconds
        while now := await self._position(connection):
            read_up_to = self.read_before(now.system)
            if read_up_to is None or not now.is_behind(read_up_to):
                return
            if asyncio.get_running_loop().time() >= deadline:
                raise ReplicaBehind(
                    f"the database at {self._place} is a replica that lags "
                    f"{read_up_to.octets - now.octets} bytes of the log behind the rows read before"
                )
            await asyncio.sleep(CATCH_UP_PERIOD)

    def read_before(self, system: str) -> Position | None:
        """Return how far the rows of a system were read; None for one that never was."""
        last = self.read_up_to
        return last if last and last.system == system else self._earlier.get(system)

    async def _position(self, connection: asyncpg.Connection) -> Position | None:
        """Return the server's position; None for one that has none, such as a database like PostgreSQL."""
        async with self._errors(self._settings.read_timeout, "answer"):
            try:
                return Position.of(await connection.fetchrow(POSITION))
            except (asyncpg.SyntaxOrAccessError, asyncpg.FeatureNotSupportedError):
                return None

    async def _begin(
        self, connection: asyncpg.Connection, columns: Sequence[str]
    ) -> dict[str, ColumnKind]:
        """Begin the snapshot, and return the kinds of the columns."""
        settings = self._settings
        milliseconds = int(settings.statement_timeout * 1000)
        await connection.execute(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
            "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; "
            "SET LOCAL IntervalStyle = 'postgres'; SET LOCAL extra_float_digits = 1; "
            f"SET LOCAL statement_timeout = {milliseconds}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}"
        )
        found = {
            name: kind_of(type_name, category)
            for name, type_name, category in await connection.fetch(
                COLUMNS, relation(settings.table)
            )
        }
        if not found:
            raise UnknownTable(
                f"{settings.database!r} has no usable table or view {settings.table!r}; names have "
                "the case that the database shows"
            )
        for column in columns:
            if column not in found:
                raise UnknownColumn(
                    f"table {settings.table!r} has no column {column!r}; check valueMappings and "
                    "extraValueMappings, in the case that the database shows"
                )
        return {column: found[column] for column in columns}

    async def _copy(
        self, connection: asyncpg.Connection, kinds: dict[str, ColumnKind]
    ) -> AsyncGenerator[Page, None]:
        """Rows as they arrive. The server waits while a page is worked on."""
        chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(1)
        statement = select(self._settings.table, kinds)
        task = asyncio.create_task(_send(connection, statement, chunks))
        try:
            pages = _Pages(kinds, self._settings.page_size)
            while True:
                async with self._errors(self._settings.read_timeout, "send its rows"):
                    chunk = await chunks.get()
                    if isinstance(chunk, Exception):
                        raise chunk
                if chunk is None:
                    break
                for page in pages.take(chunk):
                    yield page
                    await asyncio.sleep(0)
            if pages.rest:
                yield pages.rest
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def _place(self) -> str:
        return f"{self._settings.host}:{self._settings.port}"

    @contextlib.asynccontextmanager
    async def _errors(self, seconds: float, action: str) -> AsyncIterator[None]:
        """Bound what is inside, and turn the driver's errors into SourceErrors."""
        place = self._place
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
        except asyncpg.PostgresError as error:
            raise self._translated(error, place) from None
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "") or "the handshake failed"
            raise InsecureConnection(
                f"no secure connection to the database at {place}: {why}"
            ) from None
        except UnicodeError:
            raise Unreachable(
                f"spec.source.postgresql.host: {self._settings.host!r} cannot be the name of a host"
            ) from None
        except OSError as error:
            if type(error) is ConnectionError and self._settings.tls and action == "connect":
                raise InsecureConnection(
                    f"the database at {place} offers no TLS, which the registry requires"
                ) from None
            raise Unreachable(f"the database at {place} cannot be reached") from None
        except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise Unreachable(
                f"the connection to the database at {place} was lost ({type(error).__name__})"
            ) from None

    def _translated(self, error: asyncpg.PostgresError, place: str) -> SourceError:
        code = error.sqlstate or ""
        settings = self._settings
        if code in _DENIED:
            return AccessDenied(
                f"the database at {place} denies access to user {settings.username!r} "
                f"(error {code}); check username, passwordRef, pg_hba.conf and the SELECT privilege"
            )
        if code in _UNKNOWN_TABLE:
            return UnknownTable(
                f"{settings.database!r} has no usable table or view {settings.table!r} "
                f"(error {code})"
            )
        if code == _TIMED_OUT:
            return TimedOut(f"the database at {place} ended the query after its own time limit")
        if code in _CONFLICT:
            return TimedOut(
                f"the replica at {place} ended the query because it conflicts with replication (error {code}); "
                "hot_standby_feedback or max_standby_streaming_delay prevent that"
            )
        if code.startswith(("08", "53", "57P")):
            return Unreachable(f"the database at {place} cannot be reached (error {code})")
        return SourceError(f"the query failed with error {code} of the database at {place}")


class _Pages:
    """Cuts what arrives into rows, and rows into pages of a bounded number and weight."""

    def __init__(self, kinds: dict[str, ColumnKind], rows: int) -> None:
        self._columns = tuple(kinds)
        self._kinds = tuple(kinds.values())
        self._rows = rows
        self._unfinished = b""
        self._weight = 0
        self.rest: Page = []

    def take(self, chunk: bytes) -> list[Page]:
        """Return the pages that a chunk completes. Raises PeerExceedsLimits."""
        *lines, self._unfinished = (self._unfinished + chunk).split(b"\n")
        if len(self._unfinished) > LARGEST_MESSAGE:
            raise too_large()
        full: list[Page] = []
        for line in lines:
            found = bounded(self._values(line))
            self._weight += size(found)
            self.rest.append(Row(dict(zip(self._columns, found, strict=True))))
            if len(self.rest) >= self._rows or self._weight >= LARGEST_PAGE:
                full.append(self.rest)
                self.rest, self._weight = [], 0
        return full

    def _values(self, line: bytes) -> list[str | None]:
        try:
            return values(line, self._kinds)
        except ValueError:
            raise PeerExceedsLimits(
                f"the database sends a row that has not the form of its {len(self._kinds)} columns"
            ) from None


async def _send(
    connection: asyncpg.Connection, statement: str, chunks: asyncio.Queue[bytes | Exception | None]
) -> None:
    """Put what the server sends into a queue; then None, or the error."""
    end: Exception | None = None
    try:
        await connection.copy_from_query(statement, output=chunks.put)
    except Exception as error:  # noqa: BLE001 - who reads the queue raises it
        end = error
    await chunks.put(end)


async def _close(connection: asyncpg.Connection) -> None:
    """Close a connection, after what it may still be doing was cancelled."""
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        connection.terminate()
    await asyncio.sleep(0)  # the transport gives up its socket in the next turn
