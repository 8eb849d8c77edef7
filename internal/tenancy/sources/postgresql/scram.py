"""The rounds of SCRAM, computed beside the event loop: the driver computes them in the turn in which a challenge arrives."""

from __future__ import annotations

import base64
import hashlib
import re
import stringprep
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from asyncpg.protocol import protocol as driver

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
