"""How much a database makes the manager compute before a user is authenticated (S-F4)."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
from dataclasses import replace

import pytest

from internal.tenancy.sources.errors import SourceError
from tests.tenancy.databases import failure
from tests.tenancy.test_sql_security import Talk, fake_server, settings_of

MOST_ITERATIONS = 100_000
ACCEPTED = b"R\0\0\0\x08\0\0\0\0"
MANY = "2147483647"


def request(number: int, content: bytes) -> bytes:
    return b"R" + (8 + len(content)).to_bytes(4, "big") + number.to_bytes(4, "big") + content


def scram_talk(*challenges: str, before: bytes = b"") -> Talk:
    """Return a server that sends challenges of SCRAM one after the other, each with its iterations."""

    def talk(connection: socket.socket, got: list[bytes]) -> None:
        connection.recv(65536)
        connection.sendall(before + request(10, b"SCRAM-SHA-256\0\0"))
        found = re.search(rb"r=([^,]+)", connection.recv(65536))
        for iterations in challenges if found else ():
            nonce = b"r=" + found[1] + b"x,s=c2FsdA==,i="  # type: ignore[index]
            connection.sendall(request(11, nonce + iterations.encode()))
            got.append(connection.recv(65536))

    return talk


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The iterations that the driver starts to compute, instead of computing them."""
    counts: list[int] = []

    def pbkdf2_hmac(_name: str, _password: bytes, _salt: bytes, iterations: int) -> bytes:
        counts.append(iterations)
        return bytes(32)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", pbkdf2_hmac)
    return counts


@pytest.mark.criterion("S-F4")
@pytest.mark.parametrize(
    ("talk", "allowed"),
    [
        (scram_talk(MANY), []),
        (scram_talk(f"{MOST_ITERATIONS + 1}"), []),
        (scram_talk(f"000{MANY},x=y"), []),
        (scram_talk("9" * 5000), []),
        (scram_talk(f"4096,i={MANY}"), []),
        (scram_talk("60000", "60000"), [60_000]),
    ],
)
async def test_a_database_does_not_decide_how_long_the_proof_takes(
    talk: Talk, allowed: list[int], computed: list[int]
) -> None:
    async with fake_server(talk) as (port, got):
        error = await failure(settings_of("postgresql", port))
    assert computed == allowed
    assert got[-1] == b"", "the proof was sent"
    assert isinstance(error, SourceError)
    assert error.reason == "AuthenticationTooCostly"
    assert f"127.0.0.1:{port} demands more than 100,000 iterations" in str(error)
    assert "SET scram_iterations = 4096" in str(error)


@pytest.mark.criterion("S-F4")
async def test_no_proof_is_computed_for_a_database_that_let_the_user_in(
    computed: list[int],
) -> None:
    async with fake_server(scram_talk(MANY, before=ACCEPTED)) as (port, _):
        error = await failure(settings_of("postgresql", port))
    assert isinstance(error, SourceError)
    assert computed == []


@pytest.mark.criterion("S-F4")
async def test_as_many_iterations_as_allowed_are_computed(computed: list[int]) -> None:
    async with fake_server(scram_talk(f"{MOST_ITERATIONS}")) as (port, got):
        error = await failure(settings_of("postgresql", port))  # the server hangs up then
    assert computed == [MOST_ITERATIONS]
    assert b"p=" in got[-1]
    assert getattr(error, "reason", "") == "DatabaseUnreachable"


@pytest.mark.criterion("S-F4")
@pytest.mark.parametrize(
    "password", ["plain", "\u00e9\u00aa\u00a0\u00ad\u2168", "\u0627\u0031", "\u0221"]
)
async def test_the_proof_is_computed_beside_the_loop(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver takes a password after SASLprep, or as it is where that is prohibited."""
    threads: list[bool] = []
    compute = hashlib.pbkdf2_hmac

    def pbkdf2_hmac(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        threads.append(threading.current_thread() is threading.main_thread())
        return compute(name, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", pbkdf2_hmac)
    async with fake_server(scram_talk("4096")) as (port, got):
        await failure(replace(settings_of("postgresql", port), password=password))
    assert b"p=" in got[-1]
    assert threads
    assert not any(threads)
