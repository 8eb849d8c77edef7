"""Reads a URL as a stream of bytes, decompressed, within a size limit and against a checksum."""

import bz2
import gzip
import hashlib
import http.client
import io
import lzma
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit, urlunsplit

import lz4.frame

from ctrlruntime.intake import describe_error
from ctrlruntime.outbound_addresses import allowed_networks, checked_connection

if TYPE_CHECKING:
    from typing_extensions import Buffer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SECONDS: Final = 60.0
"""Timeout of a read from the server."""
SCHEMES: Final = frozenset({"http", "https"})
_BEGINNING: Final = 512
_BLOCK: Final = 1 << 20
_OPENERS: Final[dict[bytes, Callable[[IO[bytes]], object]]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    b"\x04\x22\x4d\x18": lz4.frame.LZ4FrameFile,
    b"\x28\xb5\x2f\xfd": zstd.ZstdFile,
}
"""Decompressors by the first bytes of a stream."""
BROKEN: Final = (
    lzma.LZMAError,
    zstd.ZstdError,
    http.client.HTTPException,
    OSError,
    EOFError,
    RuntimeError,  # lz4
)
"""Errors of reading a stream that is truncated or corrupt."""


class FetchError(Exception):
    """A download failed; the message gives the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Source:
    """A URL, and the conditions that its content has to meet."""

    url: str
    max_bytes: int
    """Limit of the file as it is served, and of what is unpacked from it."""
    sha256: str = ""
    """Checksum of the file as it is served, in hex; empty: any."""

    @property
    def shown(self) -> str:
        """The URL without user, password and query, for messages."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))

    def too_large(self) -> FetchError:
        """Return the error for content above the limit."""
        return FetchError(
            f"{self.shown} is larger than {self.max_bytes} bytes, packed or unpacked: check the URL, or "
            "raise spec.chain.maxDownloadSize (default: twice the size of the disk)"
        )


class MeteredReader(io.RawIOBase):
    """A stream that fails above a source's limit, and with EOFError where a connection ends early."""

    def __init__(
        self, stream: IO[bytes], source: Source, seen: Callable[[bytes], object] | None = None
    ) -> None:
        """`seen` is called with every piece that is read."""
        self._stream = stream
        self._source = source
        self._left = source.max_bytes
        self._seen = seen

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer") -> int:
        view = memoryview(buffer)
        content = self._stream.read(len(view))
        if not content and getattr(self._stream, "length", None):
            raise EOFError("the connection was closed before the end")
        self._left -= len(content)
        if self._left < 0:
            raise self._source.too_large()
        if self._seen is not None:
            self._seen(content)
        view[: len(content)] = content
        return len(content)


@contextmanager
def opened(source: Source) -> Iterator[IO[bytes]]:
    """Open the decompressed content of a URL.

    The checksum is checked when the context ends without an error. Raises FetchError, and the errors of
    BROKEN while it is read.
    """
    response = _response(source)
    with response:
        checksum = hashlib.sha256() if source.sha256 else None
        seen = None if checksum is None else checksum.update
        packed = MeteredReader(cast("IO[bytes]", response), source, seen)
        yield cast("IO[bytes]", MeteredReader(decompressed(packed), source))
        if checksum is not None:
            while packed.read(_BLOCK):
                pass
            _verify(checksum.hexdigest(), source)


def decompressed(stream: io.RawIOBase) -> IO[bytes]:
    """Return the stream behind the compression that its first bytes show."""
    beginning, whole = peeked(stream)
    for magic, opener in _OPENERS.items():
        if beginning.startswith(magic):
            return cast("IO[bytes]", opener(whole))
    return whole


def peeked(stream: io.RawIOBase) -> tuple[bytes, IO[bytes]]:
    """Return the first bytes of a stream, and the whole stream."""
    reader = io.BufferedReader(stream, buffer_size=_BLOCK)
    return reader.peek(_BEGINNING)[:_BEGINNING], reader


def _response(source: Source) -> http.client.HTTPResponse:
    if urlsplit(source.url).scheme not in SCHEMES:
        raise FetchError(f"{source.shown}: only http and https are fetched")
    try:
        response = _opener().open(source.url, timeout=SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise FetchError(f"{source.shown} cannot be fetched: HTTP status {error.code}") from None
    except (http.client.HTTPException, OSError, ValueError) as error:
        why = describe_error(error)
        raise FetchError(f"{source.shown} cannot be fetched: {why}") from None
    if (response.length or 0) > source.max_bytes:
        response.close()
        raise source.too_large()
    return cast("http.client.HTTPResponse", response)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https only, and never from https to http."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after not in SCHEMES or (before, after) == ("https", "http"):
            raise FetchError(
                f"{Source(req.full_url, 0).shown} redirects to {after}: only http and https are fetched, and "
                "no redirect leaves https; use the final URL"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Connection(http.client.HTTPConnection):
    """Connects to addresses that were checked."""

    def connect(self) -> None:
        """Connect. Raises OSError."""
        self.sock = checked_connection(self.host, self.port, self.timeout, allowed_networks())


class _TLSConnection(http.client.HTTPSConnection, _Connection):
    """The same, with TLS on it."""


class _HTTP(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _HTTPS(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_TLSConnection, req)


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener without the handlers of ftp:, file: and data: that the default one has."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        _HTTP(),
        _HTTPS(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _verify(found: str, source: Source) -> None:
    """Raise FetchError if the file has another checksum than it has to have."""
    if found != source.sha256.lower():
        raise FetchError(
            f"{source.shown} has SHA-256 {found}, not {source.sha256.lower()}: check the file and the "
            "checksum in the spec"
        )
