"""Requests and answers of the manager's own endpoints: small, without bodies of requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, unquote

__all__ = ["HTTPHandler", "ServerRequest", "ServerResponse"]

PLAIN_TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request without its body."""

    method: str
    path: str
    """Decoded, without the query."""
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """By names in lower case; of a field that is repeated, the last."""

    @classmethod
    def parse(
        cls, method: str, path: bytes, query: bytes | None, headers: Mapping[str, str]
    ) -> ServerRequest:
        """Decode the parts of a request line. Raises UnicodeDecodeError."""
        fields = parse_qs((query or b"").decode("ascii"), keep_blank_values=True)
        return cls(method, unquote(path.decode("ascii"), errors="strict"), fields, headers)


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """An answer, complete before the first byte is sent."""

    body: bytes = b""
    status: int = 200
    content_type: str = PLAIN_TEXT
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further fields."""

    def __post_init__(self) -> None:
        """Raise ValueError for fields that would add lines to the answer."""
        fields = (self.content_type, *self.headers, *self.headers.values())
        if any("\r" in field or "\n" in field for field in fields):
            raise ValueError("a header field of the answer has a line break")

    @classmethod
    def text(cls, text: str, status: int = 200) -> ServerResponse:
        """Make an answer of plain text."""
        return cls(text.encode(), status)

    @classmethod
    def of_status(cls, status: int, **headers: str) -> ServerResponse:
        """Make an answer that has no more to it than its code."""
        return cls(f"{status}: {_phrase(status)}".encode(), status, headers=headers)

    def encode(self, *, close: bool, without_body: bool = False) -> bytes:
        """Return the bytes to send. ``close`` announces the end of the connection."""
        head = [
            f"HTTP/1.1 {self.status} {_phrase(self.status)}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            f"Date: {formatdate(usegmt=True)}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        if close:
            head.append("Connection: close")
        text = "\r\n".join([*head, "", ""]).encode("latin-1")
        return text if without_body else text + self.body


HTTPHandler = Callable[[ServerRequest], Awaitable[ServerResponse]]
"""Answer a request. What it raises is answered with 500 and logged."""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
