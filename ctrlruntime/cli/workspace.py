"""The folder of a project: what is recorded in it, and changes that a kill cannot leave half done.

All that a command changes is in one file, `.ctrlruntime/pending.json`, before the first of it is changed; the next
command finishes what it finds there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from .changes import Change
from .merge import has_marks, merge
from .project import FORMAT, Project, ProjectError
from .unmerged import sides

__all__ = ["FOLDER", "Pending", "Record", "Workspace", "find_root"]

FOLDER: Final = ".ctrlruntime"


class Record(msgspec.Struct, frozen=True):
    """What `.ctrlruntime/project.json` has: the project, and the lines of its files as they were rendered."""

    project: Project
    rendered: dict[str, list[str]]

    @classmethod
    def of(cls, project: Project, texts: Mapping[str, str]) -> Record:
        return cls(project, {path: text.splitlines(keepends=True) for path, text in texts.items()})

    @property
    def texts(self) -> dict[str, str]:
        return {path: "".join(lines) for path, lines in self.rendered.items()}


class Pending(msgspec.Struct, frozen=True):
    """Changes that are being made, by which command, and the record once they are."""

    command: list[str]
    changes: list[Change]
    record: Record


def find_root(start: Path) -> Path:
    """Return the folder of the project that ``start`` is in. Raises ProjectError where there is none."""
    for folder in (start, *start.parents):
        if (folder / FOLDER / "project.json").exists() or (
            folder / FOLDER / "pending.json"
        ).exists():
            return folder
    raise ProjectError(
        f"no project in {start} or above; make one: mkdir shop && cd shop && ctrlruntime init"
    )


class _StoredChange(msgspec.Struct, frozen=True):
    """A change with bytes for texts: a file of the user's need not be UTF-8."""

    path: str
    before: bytes | None
    after: bytes | None
    conflicts: int


class _StoredPending(msgspec.Struct, frozen=True):
    command: list[str]
    changes: list[_StoredChange]
    record: Record


class Workspace:
    """The files of one project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder = root / FOLDER
        self._record = self._folder / "project.json"
        self._pending = self._folder / "pending.json"
        self._new = self._folder / "new"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder of the record, and keep other commands out of it."""
        self._check_inside(FOLDER)
        self._folder.mkdir(exist_ok=True)
        place = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise ProjectError("another command is at work in this project; wait for it") from None
        finally:
            os.close(place)
            with contextlib.suppress(OSError):  # it is not empty
                self._folder.rmdir()

    def record(self) -> Record | None:
        """Return what is recorded; None where there is no project yet. Raises ProjectError for what cannot be read."""
        self._check_inside(f"{FOLDER}/{self._record.name}")
        found = _decode(self._record, Record, f"restore it: git checkout {FOLDER}/project.json")
        if found is None:
            return None
        if found.project.format != FORMAT:
            raise ProjectError(
                f"{self._record} is of another ctrlruntime; upgrade: pip install -U 'ctrlruntime[cli]'"
            )
        return found

    def unite(self, render: Callable[[Project], dict[str, str]]) -> None:
        """Where git left conflicts in the record, record the kinds of both sides. Raises ProjectError where it cannot be.

        What was rendered is rendered anew of both together: it is the base of what follows, whatever became of the files.
        """
        self._check_inside(f"{FOLDER}/{self._record.name}")
        text = _text(self._record.read_bytes()) if self._record.exists() else None
        if text is None or not has_marks(text):
            return
        found = [
            _parse(side, Record, self._record, "take one side of it")
            for side in sides(self.root, f"{FOLDER}/{self._record.name}")
        ]
        if not found:
            raise ProjectError(
                f"{self._record} has conflicts of a merge that is over: "
                f"take it from one of the branches: git checkout BRANCH -- {FOLDER}/project.json"
            )
        empty = msgspec.structs.replace(found[0].project, apis=())
        base = found[2].project if len(found) > 2 else empty
        project = found[0].project.united(found[1].project, base)
        self._replace(self._record, _encode(Record.of(project, render(project))))

    def texts(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the texts of those files that are there. Raises ProjectError for what is no file, or not in the project."""
        found = {}
        for path in paths:
            self._check_inside(path)
            with contextlib.suppress(FileNotFoundError):
                found[path] = self._read(path)
        return found

    def pending(self) -> Pending | None:
        """Return the changes that a command was killed at, or None. Raises ProjectError for what cannot be read."""
        remedy = "look at what it changes, then remove it"
        self._check_inside(f"{FOLDER}/{self._pending.name}")
        found = _decode(self._pending, _StoredPending, remedy)
        if found is None:
            return None
        changes = [
            Change(each.path, _text(each.before), _text(each.after), each.conflicts)
            for each in found.changes
        ]
        return Pending(found.command, changes, found.record)

    def begin(self, pending: Pending) -> None:
        """Record the changes; from now on they are made, if not by this command then by the next."""
        changes = [
            _StoredChange(each.path, _bytes(each.before), _bytes(each.after), each.conflicts)
            for each in pending.changes
        ]
        stored = _StoredPending(pending.command, changes, pending.record)
        self._replace(self._pending, _encode(stored))

    def finish(self, pending: Pending) -> list[Change]:
        """Make the changes, and return them. What was edited since they were recorded is merged."""
        made = [self._make(change) for change in pending.changes]
        self._replace(self._record, _encode(pending.record))
        self._pending.unlink()
        return made

    def _make(self, change: Change) -> Change:
        now = self.texts([change.path]).get(change.path)
        if now == change.after:
            return change
        if change.after is None:
            if now == change.before:
                (self.root / change.path).unlink()
            return change
        if now != change.before:
            merged = merge(change.before or "", now or "", change.after)
            change = Change(change.path, now, merged.text, merged.conflicts)
        self._write(change.path, change.after or "")
        return change

    def _check_inside(self, path: str) -> None:
        """Raise ProjectError for a path that leads out of the project, also by a link: the record comes with a repository."""
        root = os.path.realpath(self.root)
        if os.path.commonpath([root, os.path.realpath(self.root / path)]) != root:
            raise ProjectError(
                f"{FOLDER} names {path}, which is not in the project: restore it, or remove the link"
            )

    def _read(self, path: str) -> str:
        try:
            text = _text((self.root / path).read_bytes()) or ""
        except (IsADirectoryError, NotADirectoryError):
            raise ProjectError(
                f"{path} is to be a file of the project; move what is there"
            ) from None
        return text.replace("\r\n", "\n") if _is_crlf(text) else text

    def _write(self, path: str, text: str) -> None:
        place = Path(os.path.realpath(self.root / path))
        data = _bytes(text) or b""
        if place.exists() and _is_crlf(_text(place.read_bytes()) or ""):
            data = data.replace(b"\n", b"\r\n")
        place.parent.mkdir(parents=True, exist_ok=True)
        self._replace(place, data)

    def _replace(self, place: Path, data: bytes) -> None:
        """Write a file at once, with the mode that it had."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(self._new, flags, 0o666), "wb") as file:
            file.write(data)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(place, self._new)
        self._new.replace(place)


T = TypeVar("T")


def _decode(path: Path, kind: type[T], remedy: str) -> T | None:
    """Read a file of the record; None where there is none. Raises ProjectError for one that cannot be read."""
    try:
        return _parse(path.read_bytes(), kind, path, remedy)
    except FileNotFoundError:
        return None


def _parse(data: bytes, kind: type[T], path: Path, remedy: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProjectError(f"{path} cannot be read ({error}); {remedy}") from error


def _encode(value: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=1) + b"\n"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _is_crlf(text: str) -> bool:
    """Return whether every line ends as on Windows: then those that are written do, too."""
    return text.count("\r\n") == text.count("\n") > 0
