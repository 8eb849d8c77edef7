"""Documents that describe the server: cached bytes with an ETag, answered with 304 where known."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass, field

from ctrlruntime.envtest.server.request import Request

_WORTH_COMPRESSING = 16 * 1024


@dataclass(slots=True)
class Answer:
    """What goes out: status, body and headers, the content type among them."""

    status: int
    body: bytes
    content_type: str
    headers: list[tuple[str, str]] = field(default_factory=list)


class Document:
    """One representation of a document. The compressed form is made at its first use."""

    def __init__(self, body: bytes, content_type: str, etag: str = "") -> None:
        self.body = body
        self.content_type = content_type
        self.etag = etag or digest(body)
        self._compressed: bytes | None = None

    def answer(self, request: Request, *headers: tuple[str, str]) -> Answer:
        """200 with the body, compressed where the client takes that, or 304."""
        tag = f'"{self.etag}"'
        shared = [("ETag", tag), ("Vary", "Accept"), *headers]
        known = request.headers.get("If-None-Match", "")
        if tag in {part.strip().removeprefix("W/") for part in known.split(",")}:
            return Answer(304, b"", self.content_type, shared)
        takes = request.headers.get("Accept-Encoding", "")
        if "gzip" not in takes or len(self.body) < _WORTH_COMPRESSING:
            return Answer(200, self.body, self.content_type, shared)
        if self._compressed is None:
            self._compressed = gzip.compress(self.body, compresslevel=1, mtime=0)
        encoding = [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
        return Answer(200, self._compressed, self.content_type, [*shared, *encoding])


def digest(*parts: bytes | str) -> str:
    """Return a hash as the API server writes them: SHA-512, upper-case hexadecimal."""
    total = hashlib.sha512()
    for part in parts:
        total.update(part if isinstance(part, bytes) else part.encode())
        total.update(b"\0")
    return total.hexdigest().upper()
