"""Fetches what a node begins with: its genesis file, an address book, an archive of its data."""

import bz2
import gzip
import http.client
import io
import lzma
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Final, cast
from urllib.parse import urlsplit

import lz4.frame

from internal.cosmos.fullnode.init_containers import RESTORING

SECONDS: Final = 60.0
"""Without a byte, after which a server is given up."""
_BEGINNING: Final = 512
_LZ4: Final = b"\x04\x22\x4d\x18"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZIP: Final = b"PK\x03\x04"
_OPENERS: Final[dict[bytes, Callable[[IO[bytes]], object]]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    _LZ4: lz4.frame.LZ4FrameFile,
}
_BROKEN: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    http.client.HTTPException,
    OSError,
    EOFError,
    RuntimeError,  # lz4
)
"""What reading an archive raises that is cut off, or is none."""


class FetchError(Exception):
    """It cannot be had; the message says why."""


def has_blocks(data: Path) -> bool:
    """Whether a chain has begun on this disk."""
    return any(data.glob("*.db"))


def fetch_genesis(url: str, file: Path, data: Path) -> bool:
    """Fetch the genesis file, also out of an archive. Returns whether it was: not once the chain has begun.

    Raises FetchError.
    """
    if file.exists() and file.stat().st_size and has_blocks(data):
        return False
    _fetch_json(url, file)
    return True


def fetch_addrbook(url: str, file: Path) -> bool:
    """Fetch the address book, unless there is one: the node keeps it from then on. Raises FetchError."""
    if file.exists() and file.stat().st_size:
        return False
    _fetch_json(url, file)
    return True


def fetch_snapshot(url: str, home: Path, data: Path) -> bool:
    """Unpack an archive of the node's data into `home`, unless the disk has data.

    One that was cut off is begun again: a file tells until the end. Raises FetchError.
    """
    mark = home / RESTORING
    if not mark.exists() and has_blocks(data):
        return False
    mark.touch()
    for rest in data.glob("*.db"):
        shutil.rmtree(rest)
    try:
        with opened(url) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                _unpack(archive, member, home)
    except _BROKEN as error:
        raise FetchError(f"{url} cannot be unpacked: {error}") from error
    if not has_blocks(data):
        raise FetchError(f"{url} has no data/*.db in it; say what to do by snapshotScript")
    mark.unlink()
    return True


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, home: Path) -> None:
    """One file or folder, below `home`. Links and devices are no data of a chain."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
        raise FetchError(
            f"the archive has {member.name!r}, which is no file below the node's folder"
        )
    if member.isdir():
        (home / path).mkdir(parents=True, exist_ok=True)
        return
    content = archive.extractfile(member)
    (home / path).parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        with (home / path).open("wb") as file:
            shutil.copyfileobj(content, file, 1 << 20)


def _fetch_json(url: str, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    try:
        with opened(url) as stream, part.open("wb") as target:
            _copy_json(stream, target, url)
        part.replace(file)
    except _BROKEN as error:
        raise FetchError(f"{url} cannot be read: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _copy_json(stream: IO[bytes], target: IO[bytes], url: str) -> None:
    beginning, stream = _peeked(stream)
    if beginning.startswith(_ZIP):
        _of_zip(stream, target, url)
    elif beginning.lstrip()[:1] == b"{":
        shutil.copyfileobj(stream, target)
    else:
        _of_tar(stream, target, url)


def _of_zip(stream: IO[bytes], target: IO[bytes], url: str) -> None:
    with TemporaryFile() as whole:
        shutil.copyfileobj(stream, whole)
        with zipfile.ZipFile(whole) as archive:
            names = [name for name in archive.namelist() if name.endswith(".json")]
            if len(names) != 1:
                raise FetchError(f"{url} has {len(names)} files *.json in it, not one")
            with archive.open(names[0]) as member:
                shutil.copyfileobj(member, target)


def _of_tar(stream: IO[bytes], target: IO[bytes], url: str) -> None:
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.name.endswith(".json") else None
                if content is not None:
                    shutil.copyfileobj(content, target)
                    return
    except tarfile.ReadError as error:
        raise FetchError(f"{url} is neither JSON nor an archive") from error
    raise FetchError(f"{url} has no file *.json in it")


@contextmanager
def opened(url: str) -> Iterator[IO[bytes]]:
    """What a URL has, decompressed. Raises FetchError."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise FetchError(f"{url}: only http and https are fetched")
    try:
        response = urllib.request.urlopen(url, timeout=SECONDS)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        raise FetchError(f"{url} cannot be fetched: {error}") from error
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise FetchError(f"{url} cannot be fetched: {error}") from error
    with response:
        yield decompressed(cast("IO[bytes]", response), url)


def decompressed(stream: IO[bytes], url: str) -> IO[bytes]:
    """The stream behind the compression that its first bytes tell. Raises FetchError for zstd."""
    beginning, whole = _peeked(stream)
    if beginning.startswith(_ZSTD):
        raise FetchError(f"{url} is compressed by zstd; unpack it by a script")
    for magic, opener in _OPENERS.items():
        if beginning.startswith(magic):
            return cast("IO[bytes]", opener(whole))
    return whole


def _peeked(stream: IO[bytes]) -> tuple[bytes, IO[bytes]]:
    reader = io.BufferedReader(cast("io.RawIOBase", _Raw(stream)), buffer_size=1 << 20)
    return reader.peek(_BEGINNING)[:_BEGINNING], reader


class _Raw(io.RawIOBase):
    """A stream that can only be read, as a raw one."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        content = self._stream.read(len(view))
        if not content and getattr(self._stream, "length", None):
            raise EOFError("the connection was closed before the end")
        view[: len(content)] = content
        return len(content)
