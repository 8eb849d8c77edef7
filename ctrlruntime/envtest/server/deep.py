"""Objects that are nested more deeply than Python's own decoders go, as the real server keeps them.

What is below a hundred levels is set aside, and the rest of the server sees a text in its place.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from ctrlruntime.clock import random_hex
from ctrlruntime.intake.json_documents import is_deeper

KEPT: Final = 100
"""Levels that the server sees."""
READ: Final = 200
"""Levels of a request from which on what is below `KEPT` is set aside."""
MOST: Final = 10_000
"""Levels that the real server's decoder reads."""
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)


class DeepParts:
    """The parts of documents that were set aside, by the texts in their places."""

    def __init__(self) -> None:
        self._parts: dict[bytes, bytes] = {}
        self._nonce = random_hex(8)
        self._places: Final = re.compile(rb'"deep-%b-[0-9a-f]{64}"' % self._nonce.encode())

    def set_aside(self, body: bytes) -> bytes:
        """Return a document without what is nested too deep in it; the same if nothing is."""
        if not is_deeper(body, READ) or is_deeper(body, MOST):
            return body
        kept: list[bytes] = []
        depth = at = start = 0
        for token in _TOKEN.finditer(body):
            mark = body[token.start()]
            if mark in b"{[":
                depth += 1
                if depth == KEPT + 1:
                    start = token.start()
            elif mark in b"}]":
                if depth == KEPT + 1:
                    kept += (body[at:start], self._place_of(body[start : token.end()]))
                    at = token.end()
                depth -= 1
        return b"".join([*kept, body[at:]])

    def put_back(self, body: bytes) -> bytes:
        """Return what the server answers with those parts in their places."""
        if not self._parts:
            return body
        return self._places.sub(lambda found: self._parts.get(found[0], found[0]), body)

    def _place_of(self, part: bytes) -> bytes:
        place = f'"deep-{self._nonce}-{sha256(part).hexdigest()}"'.encode()
        self._parts[place] = part
        return place
