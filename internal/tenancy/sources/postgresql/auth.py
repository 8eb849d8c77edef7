"""Connections that give a password away only to a server whose certificate was verified.

The server chooses how a client authenticates. SCRAM and MD5 prove the password; `password` demands it
as it is. The driver answers either, and reads the environment and files of the manager's user for
what a caller leaves out, so that connections are made here from its parts.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import socket
import ssl
import stringprep
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from asyncpg import Connection, InternalClientError
from asyncpg.connect_utils import (
    SessionAttribute,
    SSLMode,
    SSLNegotiation,
    _ClientConfiguration,
    _ConnectionParameters,
    _create_ssl_connection,
)
from asyncpg.protocol import Protocol, Record
from asyncpg.protocol import protocol as driver

from ctrlruntime.outbound_addresses import outbound_socket
from internal.tenancy.sources.errors import InsecureConnection
from internal.tenancy.sources.limits import (
    LARGEST_HANDSHAKE,
    LARGEST_MESSAGE,
    LARGEST_REPLY,
    MOST_ITERATIONS,
    PeerExceedsLimits,
    TooManyIterations,
)

Salted = Mapping[tuple[bytes, bytes, int], bytes]
"""Salted passwords by password, salt and number of rounds."""
SALT: Final = re.compile(rb",s=([^,]+),")
ROUNDS: Final = re.compile(rb",i=(\d+),?")
"""What the driver takes of a challenge."""


def salted_passwords(password: str, challenge: bytes) -> Salted:
    """Return what the driver will need for a challenge; nothing for one that it refuses. For a thread: it takes long."""
    salt, rounds = SALT.search(challenge), ROUNDS.search(challenge)
    if salt is None or rounds is None:
        return {}
    try:
        bits, count = base64.b64decode(salt[1]), int(rounds[1])
        return {
            (each, bits, count): hashlib.pbkdf2_hmac("sha256", each, bits, count)
            for each in {text.encode() for text in (password, _prepared(password))}
        }
    except (ValueError, OverflowError):
        return {}


def _prepared(password: str) -> str:
    """Return the password after SASLprep. The driver takes that or, where it is prohibited, the password itself."""
    mapped = (
        " " if stringprep.in_table_c12(char) else char
        for char in password
        if not stringprep.in_table_b1(char)
    )
    return unicodedata.normalize("NFKC", "".join(mapped))


class DriverHashes:
    """Stands for `hashlib` in the driver: of the rounds it returns what was computed before."""

    def __init__(self) -> None:
        self._known: Salted = {}

    def __getattr__(self, name: str) -> object:
        return getattr(hashlib, name)

    def pbkdf2_hmac(self, name: str, password: bytes, salt: bytes, rounds: int) -> bytes:
        known = self._known.get((password, salt, rounds))
        return hashlib.pbkdf2_hmac(name, password, salt, rounds) if known is None else known

    @contextmanager
    def knowing(self, salted: Salted) -> Iterator[None]:
        """Return these salted passwords within the block, which must not await."""
        self._known = salted
        try:
            yield
        finally:
            self._known = {}


DRIVER_HASHES: Final = DriverHashes()
vars(driver)["hashlib"] = DRIVER_HASHES


AUTHENTICATION: Final = ord("R")
ACCEPTED: Final = 0
CLEAR_TEXT: Final = 3
PROVING: Final = frozenset({ACCEPTED, 5, 10, 11, 12})
"""Requests that reveal no password: none, MD5, and the steps of SASL."""
CHALLENGE: Final = 11
"""The step of SASL that names salt and iterations."""
ITERATIONS: Final = re.compile(rb",i=0*([0-9]+)")
COPY_DATA: Final = ord("d")
HEADER: Final = 5
"""Bytes of a message's type and length; the length counts itself."""


class GuardedProtocol(Protocol):  # type: ignore[misc]
    """The driver's protocol, which sees a request for authentication only if it may be answered."""

    def __init__(
        self,
        refuse: Callable[[int, int], Exception | None],
        password: str,
        loop: asyncio.AbstractEventLoop,
        *args: object,
    ) -> None:
        """`refuse` returns the error for a request of this number, None if it may be answered.

        Its second argument is the number of iterations that the server has demanded so far.
        """
        super().__init__(*args, loop)
        self._refuse = refuse
        self._password = password
        self._loop = loop
        self._salting: asyncio.Future[Salted] | None = None
        """The rounds of a challenge, computed in a thread; what comes meanwhile waits."""
        self._unseen = bytearray()
        self._lengths = MessageLengths()
        self._authenticated = False
        self._before_authentication = 0
        self._iterations = 0
        self._announced = 0
        """The length of a message that is not whole yet; it is counted already."""
        self._connection_made_on: asyncio.Transport | None = None
        self.refusal: Exception | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._connection_made_on = transport
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on whole messages until authentication has ended, and everything after it."""
        if self._authenticated:
            self._pass_on(data)
            return
        self._unseen += data
        while (message := self._next_message()) and self.refusal is None:
            if message[0] == AUTHENTICATION:
                self._authenticate(message)
            else:
                super().data_received(message)
        if self._authenticated and self._unseen:
            rest, self._unseen = bytes(self._unseen), bytearray()
            self._pass_on(rest)

    def _salt(self, challenge: bytes) -> None:
        """Pass a challenge on once what takes long of its answer is computed."""
        self._salting = self._loop.run_in_executor(
            None, salted_passwords, self._password, challenge[HEADER + 4 :]
        )
        self._salting.add_done_callback(partial(self._answer, challenge))

    def _answer(self, challenge: bytes, salting: asyncio.Future[Salted]) -> None:
        self._salting = None
        transport = self._connection_made_on
        if salting.cancelled() or transport is None or transport.is_closing():
            return
        with DRIVER_HASHES.knowing(salting.result()):
            super().data_received(challenge)
        self.data_received(b"")

    def _pass_on(self, data: bytes) -> None:
        """Pass on what came after authentication, unless it holds a message that no server needs to send."""
        if self.refusal is None and self._lengths.fit(data):
            super().data_received(data)
        elif self.refusal is None:
            self._end(too_large())

    def _next_message(self) -> bytes:
        if self._authenticated or self._salting or len(self._unseen) < HEADER:
            return b""
        end = 1 + int.from_bytes(self._unseen[1:HEADER], "big")
        self._before_authentication += end if end != self._announced else 0
        self._announced = end
        if end < HEADER or self._before_authentication > LARGEST_HANDSHAKE:
            self._end(too_large())
            return b""
        if len(self._unseen) < end:
            return b""
        message = bytes(self._unseen[:end])
        del self._unseen[:end]
        self._announced = 0
        return message

    def _authenticate(self, message: bytes) -> None:
        """Pass on a request for authentication that may be answered."""
        content = message[HEADER:]
        request = int.from_bytes(content[:4], "big")
        self._authenticated = request == ACCEPTED
        if request == CHALLENGE:
            self._iterations += demanded(content)
        refused = self._refuse(request, self._iterations)
        if refused is not None:
            self._end(refused)
        elif request == CHALLENGE:
            self._salt(message)
        else:
            super().data_received(message)

    def _end(self, error: Exception) -> None:
        self.refusal = error
        self._unseen.clear()
        if self._connection_made_on is not None:
            self._connection_made_on.abort()


class MessageLengths:
    """The lengths of messages after authentication, by their heads alone."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def fit(self, data: bytes) -> bool:
        """Take more of the stream. Return False once a message has another length than a server may send.

        A request for authentication may have none: the driver would answer it until the first query.
        """
        place = 0
        while place < len(data):
            if self._left:
                step = min(self._left, len(data) - place)
                self._left -= step
                place += step
                continue
            missing = HEADER - len(self._head)
            self._head += data[place : place + missing]
            place += missing
            if len(self._head) < HEADER:
                return True
            length = int.from_bytes(self._head[1:], "big")
            largest = LARGEST_MESSAGE if self._head[0] == COPY_DATA else LARGEST_REPLY
            if self._head[0] == AUTHENTICATION or not HEADER - 1 <= length <= largest:
                return False
            self._left, self._head = length - (HEADER - 1), b""
        return True


def too_large() -> Exception:
    """Return the error of a server that sends more than is kept."""
    return PeerExceedsLimits(
        "the database sends messages that no PostgreSQL server needs to send, by kind or length; check that host and port "
        "are those of a PostgreSQL server, and map fewer columns where rows are very large"
    )


def demanded(challenge: bytes) -> int:
    """Return how many iterations a challenge demands; for a very long number some that is too large."""
    return sum(int(digits[:12]) for digits in ITERATIONS.findall(challenge))


def refusal(address: str, request: int, iterations: int = 0, *, verified: bool) -> Exception | None:
    """Return why a request for authentication is not answered; None if it may be.

    `iterations`: all that the server demands of SCRAM in this connection. `verified`: whether the certificate
    of the server at `address` was verified.
    """
    if iterations > MOST_ITERATIONS:
        return TooManyIterations(
            f"the database at {address} demands more than {MOST_ITERATIONS:,} iterations of scram-sha-256; in psql, "
            "as this user: SET scram_iterations = 4096, then \\password; before that check host and port"
        )
    if request in PROVING or (verified and request == CLEAR_TEXT):
        return None
    if request == CLEAR_TEXT:
        return InsecureConnection(
            f"the database at {address} demands the password in clear text; that needs tls "
            "with the mode VerifyCA or VerifyIdentity, or scram-sha-256 in its pg_hba.conf"
        )
    return InsecureConnection(
        f"the database at {address} demands an authentication other than scram-sha-256, md5 "
        "and password; change its pg_hba.conf for this user"
    )


def _parameters(
    username: str, password: str, database: str, context: ssl.SSLContext | None
) -> _ConnectionParameters:
    """Return the driver's parameters, all of them given: it reads none from its environment."""
    return _ConnectionParameters(
        user=username,
        password=password,
        database=database,
        ssl=context,
        sslmode=SSLMode.disable if context is None else SSLMode.require,
        ssl_negotiation=SSLNegotiation.postgres,
        server_settings={"application_name": "tenant-registry"},
        target_session_attrs=SessionAttribute.any,
        krbsrvname=None,
        gsslib="gssapi",
    )


class _ConnectedLoop:
    """The loop as the driver has it: a connection is made by a socket that is connected already."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        self._loop = loop
        self._sock = sock

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)

    async def create_connection(
        self, factory: Callable[[], asyncio.Protocol], _host: str, _port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        return await self._loop.create_connection(factory, sock=self._sock)


async def connect(
    *,
    host: str,
    port: int,
    username: str,
    password: str,
    database: str,
    context: ssl.SSLContext | None,
) -> Connection:
    """Return a connection of the driver. Raises InsecureConnection, the driver's errors and OSError."""
    loop = asyncio.get_running_loop()
    connected = loop.create_future()
    connected.add_done_callback(lambda future: future.cancelled() or future.exception())
    parameters = _parameters(username, password, database, context)
    verified = context is not None and context.verify_mode is ssl.CERT_REQUIRED
    refuse = partial(refusal, f"{host}:{port}", verified=verified)

    def protocol() -> GuardedProtocol:
        return GuardedProtocol(refuse, password, loop, (host, port), connected, parameters, Record)

    sock = await outbound_socket(host, port)
    if context is None:
        transport, made = await loop.create_connection(protocol, sock=sock)
    else:
        transport, made = await _create_ssl_connection(
            protocol, host, port, loop=_ConnectedLoop(loop, sock), ssl_context=context
        )
    try:
        await connected
    except BaseException:
        transport.abort()
        await asyncio.sleep(0)  # the transport gives up its socket in the next turn
        if made.refusal is not None:
            raise made.refusal from None
        raise
    without_caches = _ClientConfiguration(
        command_timeout=None,
        statement_cache_size=0,
        max_cached_statement_lifetime=0,
        max_cacheable_statement_size=0,
    )
    try:
        connection = Connection(made, transport, loop, (host, port), without_caches, parameters)
    except (AttributeError, ValueError):  # what the server reports as its version, or does not
        transport.abort()
        while made.is_connected():  # noqa: ASYNC110 - for turns: the driver fails to free what it has half made before
            await asyncio.sleep(0)
        raise InternalClientError("the server reports no version") from None
    made.set_connection(connection)
    return connection
