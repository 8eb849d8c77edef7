"""HTTP/1.1 framing, as far as a proxy needs it: heads, body lengths and chunks. No I/O."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

MAX_HEAD: Final = 256 * 1024


class MalformedMessage(ValueError):
    """The peer does not speak HTTP/1.1."""


class Head:
    """The start line and headers of a message; `raw` is what came over the wire."""

    __slots__ = ("headers", "raw", "start")

    def __init__(self, raw: bytes) -> None:
        lines = raw.split(b"\r\n")
        self.raw = raw
        self.start = lines[0].decode("latin-1").split(" ", 2)
        headers: dict[bytes, bytes] = {}
        for line in lines[1:-2]:
            name, colon, value = line.partition(b":")
            if not colon:
                raise MalformedMessage(f"header line without a colon: {line[:80]!r}")
            headers[name.lower()] = value.strip()
        self.headers = headers

    def text(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def chunked(self) -> bool:
        return self.headers.get(b"transfer-encoding", b"").lower() == b"chunked"

    @property
    def length(self) -> int | None:
        """Content-Length in bytes, or None where the head names none."""
        value = self.headers.get(b"content-length")
        if value is None:
            return None
        if not value.isdigit():
            raise MalformedMessage(f"Content-Length {value[:40]!r} is not a number")
        return int(value)


def take_head(buffer: bytearray) -> Head | None:
    """Remove a complete head from the front of `buffer`, or return None until there is one."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > MAX_HEAD:
            raise MalformedMessage(f"message head is longer than {MAX_HEAD} bytes")
        return None
    raw = bytes(memoryview(buffer)[: end + 4])
    del buffer[: end + 4]
    return Head(raw)


class LengthBody:
    """A body of a known number of bytes."""

    __slots__ = ("left",)

    def __init__(self, length: int) -> None:
        self.left = length

    @property
    def done(self) -> bool:
        return self.left == 0

    def take(self, buffer: bytearray) -> bytes:
        """Remove and return the bytes of this body at the front of `buffer`."""
        size = min(self.left, len(buffer))
        data = bytes(memoryview(buffer)[:size])
        del buffer[:size]
        self.left -= size
        return data


class UntilCloseBody:
    """A body that ends with its connection."""

    __slots__ = ()
    done = False

    def take(self, buffer: bytearray) -> bytes:
        data = bytes(buffer)
        buffer.clear()
        return data


class ChunkedBody:
    """A chunked body. `take` passes the wire bytes on, `take_payload` the content alone."""

    __slots__ = ("_left", "_trailer", "done")

    def __init__(self) -> None:
        self.done = False
        self._left = 0  # bytes left of the current chunk, with its closing line break
        self._trailer = False

    def take(self, buffer: bytearray) -> bytes:
        """Remove the wire bytes of this body (framing included) from the front of `buffer`."""
        view = bytes(buffer)
        end = self._scan(view, None)
        del buffer[:end]
        return view[:end] if end < len(view) else view

    def take_payload(self, buffer: bytearray) -> bytes:
        """Like `take`, without the framing."""
        view = bytes(buffer)
        parts: list[bytes] = []
        end = self._scan(view, parts)
        del buffer[:end]
        return b"".join(parts)

    def _scan(self, data: bytes, parts: list[bytes] | None) -> int:
        at, size = 0, len(data)
        while at < size and not self.done:
            if self._left:
                step = min(self._left, size - at)
                if parts is not None:
                    content = min(step, max(self._left - 2, 0))
                    parts.append(data[at : at + content])
                self._left -= step
                at += step
                continue
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                break
            self._size_line(data[at:line_end])
            at = line_end + 2
        return at

    def _size_line(self, line: bytes) -> None:
        if self._trailer:
            self.done = not line
            return
        try:
            length = int(line.split(b";", 1)[0], 16)
        except ValueError as error:
            raise MalformedMessage(f"chunk size {line[:40]!r} is not a number") from error
        if length:
            self._left = length + 2
        else:
            self._trailer = True


Body = LengthBody | ChunkedBody | UntilCloseBody


def request_body(head: Head) -> LengthBody | ChunkedBody:
    return ChunkedBody() if head.chunked else LengthBody(head.length or 0)


def response_body(head: Head, status: int, method: str) -> Body:
    if method == "HEAD" or status in (204, 304) or status < 200:
        return LengthBody(0)
    if head.chunked:
        return ChunkedBody()
    length = head.length
    return UntilCloseBody() if length is None else LengthBody(length)


def chunk(payload: bytes) -> bytes:
    """`payload` as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


LAST_CHUNK: Final = b"0\r\n\r\n"


def simple_response(status: int, body: bytes, headers: dict[str, str]) -> bytes:
    """Return a whole JSON response."""
    lines = [
        f"HTTP/1.1 {status} {_phrase(status)}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
