"""Fetches what a node begins with: its genesis file, an address book, an archive of its data."""

import mmap
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Final, cast

import msgspec

from ctrlruntime.intake import describe_error
from internal.cosmos.fullnode.init_containers import RESTORING
from internal.cosmos.sidecar.download import (
    BROKEN,
    FetchError,
    MeteredReader,
    Source,
    opened,
    peeked,
)

__all__ = [
    "FetchError",
    "Source",
    "default_limit",
    "fetch_addrbook",
    "fetch_genesis",
    "fetch_snapshot",
]

UNPACKED: Final = frozenset({"data", "wasm"})
"""Folders of an archive that are written; keys and configuration are never taken from it."""
_OF_A_NODE: Final = frozenset(
    {"priv_validator_key.json", "priv_validator_state.json", "node_key.json"}
)
"""Files of the node that an archive was made of, wherever they lie in it: they are not written either."""
_HEADER: Final = 1 << 20
"""Limit of the headers before one member of an archive, which are held in memory."""
_ZIP: Final = b"PK\x03\x04"
_BROKEN: Final = (*BROKEN, tarfile.TarError, zipfile.BadZipFile)


class Genesis(msgspec.Struct):
    """The part of a genesis file that is checked."""

    chain_id: str


class AddressBook(msgspec.Struct):
    """The part of an address book that is checked: it is an object."""


def default_limit(home: Path) -> int:
    """Return twice the size of the disk that `home` is on, in bytes."""
    return 2 * shutil.disk_usage(home).total


def has_blocks(data: Path) -> bool:
    """Whether a chain has begun on this disk."""
    return any(data.glob("*.db"))


def fetch_genesis(source: Source, file: Path, data: Path) -> bool:
    """Fetch the genesis file, also out of an archive. Returns whether it was: not once the chain has begun.

    Raises FetchError.
    """
    if file.exists() and file.stat().st_size and has_blocks(data):
        return False
    _fetch_json(source, file, Genesis)
    return True


def fetch_addrbook(source: Source, file: Path) -> bool:
    """Fetch the address book, unless there is one: the node keeps it from then on. Raises FetchError."""
    if file.exists() and file.stat().st_size:
        return False
    _fetch_json(source, file, AddressBook)
    return True


def fetch_snapshot(source: Source, home: Path, data: Path) -> bool:
    """Unpack `data/` and `wasm/` of an archive into `home`, unless the disk has data.

    One that was cut off is begun again: a file tells until the end. Raises FetchError.
    """
    mark = home / RESTORING
    if not mark.exists() and has_blocks(data):
        return False
    mark.touch()
    for rest in data.glob("*.db"):
        shutil.rmtree(rest)
    try:
        with opened(source) as stream:
            unpack(stream, home, source)
    except _BROKEN as error:
        why = describe_error(error)
        raise FetchError(f"{source.shown} cannot be unpacked: {why}") from None
    if not has_blocks(data):
        raise FetchError(
            f"{source.shown} has no data/*.db in it, and only data/ and wasm/ are unpacked; say what to do by "
            "snapshotScript"
        )
    mark.unlink()
    return True


def unpack(stream: IO[bytes], home: Path, source: Source) -> None:
    """Write the files below `data/` and `wasm/` of a tar archive; others are skipped.

    Raises FetchError for links, devices, paths outside of the folder, and content above the source's limit.
    """
    left = source.max_bytes
    for member, content in _members(stream, source):
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
            raise FetchError(
                f"the archive has {_kind(member)} that is no file below the node's folder: only files and "
                "folders are unpacked; use another archive, or snapshotScript"
            )
        if path.parts[:1] and path.parts[0] in UNPACKED and path.name not in _OF_A_NODE:
            left -= _write(home / path, content)
        elif content is not None:
            left -= _drain(content)
        if left < 0:
            raise source.too_large()


def _kind(member: tarfile.TarInfo) -> str:
    """Describe a member of an archive without its name."""
    if member.issym() or member.islnk():
        return "a link"
    return "a path" if member.isfile() or member.isdir() else "a device"


def _members(
    stream: IO[bytes], source: Source
) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield the members of an archive, and the content of each file, which the caller reads to its end."""
    headers = _HeaderLimit(stream)
    with tarfile.open(fileobj=cast("IO[bytes]", headers), mode="r|") as archive:
        while True:
            headers.left = _HEADER
            member = archive.next()
            headers.left = None
            if member is None:
                return
            content = archive.extractfile(member) if member.isfile() else None
            yield member, None if content is None else _limited(content, source)
            archive.members.clear()  # type: ignore[attr-defined]


class _HeaderLimit:
    """A stream that fails where the headers of an archive are longer than they ever are."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.left: int | None = _HEADER
        """Bytes until the limit; None while content is read."""

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(size)
        if self.left is not None:
            self.left -= len(content)
            if self.left < 0:
                raise FetchError(
                    f"the archive has a header that is longer than {_HEADER} bytes: use another one"
                )
        return content


def _limited(content: IO[bytes], source: Source) -> IO[bytes]:
    """Return the content of a file, whose holes (of a sparse one) count too."""
    return peeked(MeteredReader(content, source))[1]


def _write(path: Path, content: IO[bytes] | None) -> int:
    """Write a file, or make a folder. Returns the number of bytes."""
    if content is None:
        path.mkdir(parents=True, exist_ok=True)
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
        return file.tell()


def _drain(content: IO[bytes]) -> int:
    total = 0
    while block := content.read(1 << 20):
        total += len(block)
    return total


def _fetch_json(source: Source, file: Path, schema: type[msgspec.Struct]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    try:
        with opened(source) as stream, part.open("wb") as target:
            _copy_json(stream, target, source)
        _check_json(part, source, schema)
        part.replace(file)
    except _BROKEN as error:
        raise FetchError(f"{source.shown} cannot be read: {describe_error(error)}") from None
    finally:
        part.unlink(missing_ok=True)


def _check_json(file: Path, source: Source, schema: type[msgspec.Struct]) -> None:
    """Check the syntax of a whole file, and what `schema` needs, without building its objects."""
    with file.open("rb") as opened_file:
        if not file.stat().st_size:
            raise FetchError(f"{source.shown} is empty")
        with mmap.mmap(opened_file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                msgspec.json.decode(content, type=schema)
            except (msgspec.DecodeError, RecursionError) as error:
                raise FetchError(
                    f"{source.shown} is no such JSON file: {error}; if it has to be converted, use a script"
                ) from error


def _copy_json(stream: IO[bytes], target: IO[bytes], source: Source) -> None:
    beginning, stream = peeked(stream)  # type: ignore[arg-type]
    if beginning.startswith(_ZIP):
        _of_zip(stream, target, source)
    elif beginning.lstrip()[:1] == b"{":
        shutil.copyfileobj(stream, target)
    else:
        _of_tar(stream, target, source)


def _of_zip(stream: IO[bytes], target: IO[bytes], source: Source) -> None:
    """Copy the one JSON file of a zip archive, which is kept on the node's disk meanwhile."""
    with TemporaryFile(dir=Path(target.name).parent) as whole:
        shutil.copyfileobj(stream, whole)
        with zipfile.ZipFile(whole) as archive:
            names = [name for name in archive.namelist() if name.endswith(".json")]
            if len(names) != 1:
                raise FetchError(f"{source.shown} has {len(names)} files *.json in it, not one")
            with archive.open(names[0]) as member:
                shutil.copyfileobj(_limited(member, source), target)


def _of_tar(stream: IO[bytes], target: IO[bytes], source: Source) -> None:
    try:
        for member, content in _members(stream, source):
            if content is None:
                continue
            if member.name.endswith(".json"):
                shutil.copyfileobj(content, target)
                return
            _drain(content)
    except tarfile.ReadError as error:
        raise FetchError(f"{source.shown} is neither JSON nor an archive") from error
    raise FetchError(f"{source.shown} has no file *.json in it")
