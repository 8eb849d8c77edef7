"""The folder of a local run: what is known of it, in files, and the lock and pipe that tell if it lives."""

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import orjson

from ctrlruntime.clock import monotonic, random_hex
from internal.cloud.runs.files import RESULT, SEAL_KEY, SECRETS
from internal.cloud.runs.local import supervisor
from internal.cloud.runs.provider import RunOwner
from internal.cloud.runs.report import LARGEST

__all__ = ["EndWatch", "Outcome", "Plan", "RunFolder", "is_name"]

_NO_REPORT: Final = (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.ENOTDIR)
"""What opening it fails with for as long as it is as the run left it."""
WORK: Final = "work"
_LOCK: Final = "lock"
_NAME: Final = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]{0,126}[A-Za-z0-9])?")
_START_TIMEOUT: Final = 30.0
_PAUSE: Final = 0.01


T = TypeVar("T")
_AGAIN = 0.05


def is_name(text: str) -> bool:
    """Whether it may name a folder."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The supervisor's input, and what is known of the run from its first moment on."""

    run_id: str
    owner: RunOwner
    created_at: float
    """Seconds of the epoch."""
    timeout: float
    grace: float
    command: list[str]
    environment: dict[str, str]
    workdir: str
    secrets: str
    environment_file: str = ""
    """File with more variables, read by the supervisor when the task starts; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the supervisor records at the end."""

    reason: str
    """Ended, Cancelled, TimedOut, or Lost."""
    finished_at: float
    code: int | None = None
    """Exit code, negative for a signal; None if there was no process."""
    message: str = ""


class RunFolder:
    """Paths, and what follows from them. Calls block, for files of this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # Making and removing

    def make(self, plan: Plan, files: Mapping[str, bytes]) -> bool:
        """With all its files at once, or not at all; False if it was there already."""
        if self.path.exists():
            return False
        root = self.path.parent.parent
        draft = root / f".making-{random_hex(16)}"
        draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.mkdir(mode=0o700)
        try:
            _fill(draft, {**files, supervisor.PLAN: orjson.dumps(plan)})
            return self._move_here(draft)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _move_here(self, draft: Path) -> bool:
        while True:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            try:
                draft.rename(self.path)  # refused where there is a folder with something in it
            except FileNotFoundError:
                if not draft.exists():
                    raise
            except OSError:
                if not self.path.exists():
                    raise
                return False
            else:
                return True

    def remove(self) -> None:
        """Also what is left of the owner's folder, if this was the last run in it."""
        grave = self.path.parent.parent / f".deleted-{random_hex(16)}"
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(grave)
            shutil.rmtree(grave, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.path.parent.rmdir()

    # Starting and ending

    def start(self) -> None:
        """Have the supervisor run the task, unless it was started before, by anybody."""
        give_up = monotonic() + _START_TIMEOUT
        while not self.has_started() and monotonic() < give_up:
            with self.locked() as lock:
                if lock is not None:
                    if not self.has_started():
                        _spawn(self.path, lock)
                    return
            time.sleep(_PAUSE)  # somebody else is starting it, or only looking

    def cancel(self) -> None:
        """Request the run's end from the supervisor; one that has not begun never will."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / supervisor.CANCEL).touch()
            with contextlib.suppress(OSError):  # nobody reads: it is over, or begins and will look
                orders = os.open(self.path / supervisor.ORDERS, os.O_WRONLY | os.O_NONBLOCK)
                os.write(orders, b"\n")
                os.close(orders)
            with self.locked() as lock:
                if lock is not None and not self.has_started():
                    (self.path / supervisor.STARTED).touch()
                    self._close("Cancelled", "cancelled before it began")

    def close_lost(self) -> None:
        """Return whether a run that has begun was killed with its supervisor: its lock is free."""
        supervisor.end_all(str(self.path))
        with contextlib.suppress(FileNotFoundError), self.locked() as lock:
            if lock is not None and self.outcome() is None:
                self._close("Lost", "")

    def _close(self, reason: str, message: str) -> None:
        supervisor.forget(self.path / SECRETS)
        supervisor.write_outcome(self.path, None, reason, message)

    # What is known

    @contextlib.contextmanager
    def locked(self) -> Iterator[int | None]:
        """Yield the lock, or None while another process has it. Raises FileNotFoundError without a folder."""
        lock = os.open(self.path / _LOCK, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            yield None
            return
        try:
            yield lock
        finally:
            os.close(lock)

    def is_alive(self) -> bool:
        """Whether a process of the run holds the lock. False without a folder."""
        try:
            lock = os.open(self.path / _LOCK, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # those who look do not see each other
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def has_started(self) -> bool:
        return (self.path / supervisor.STARTED).exists()

    def started_at(self) -> float | None:
        """Seconds of the epoch."""
        try:
            return (self.path / supervisor.STARTED).stat().st_mtime
        except FileNotFoundError:
            return None

    def plan(self) -> Plan | None:
        """None if there is no such run."""
        return _read(self.path / supervisor.PLAN, Plan)

    def outcome(self) -> Outcome | None:
        """None while it is not over."""
        return _read(self.path / supervisor.OUTCOME, Outcome)

    def last_words(self) -> bytes:
        """Return the report as it is now, or the beginning of one that is too large; empty for what is no file."""
        try:
            # Whatever a run puts there: nothing waits for the other end of a pipe, or leads elsewhere.
            file = os.open(self.path / RESULT, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno not in _NO_REPORT:
                raise  # of this moment, such as too many open files: what it wrote is there
            return b""
        try:
            regular = stat.S_ISREG(os.fstat(file).st_mode)
            return os.read(file, LARGEST + 1) if regular else b""
        finally:
            os.close(file)

    def seal_key(self) -> str:
        """Raise FileNotFoundError."""
        return (self.path / SEAL_KEY).read_text()


def _fill(draft: Path, files: Mapping[str, bytes]) -> None:
    for name in (WORK, SECRETS):
        (draft / name).mkdir(mode=0o700)
    for name in (supervisor.ALIVE, supervisor.ORDERS):
        os.mkfifo(draft / name, 0o600)
    for name, data in {**files, _LOCK: b"", supervisor.LOG: b""}.items():
        file = draft / name
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(data)


def _spawn(path: Path, lock: int) -> None:
    program = [sys.executable, "-I", "-S", supervisor.__file__, str(path), str(lock)]
    with (path / supervisor.LOG).open("ab") as log:
        subprocess.run(  # noqa: S603 - our own program
            program,
            pass_fds=(lock,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            check=True,
        )


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None


class EndWatch:
    """Calls `over` once, on this loop, when no process of the run is left."""

    def __init__(self, folder: RunFolder, over: Callable[[], None]) -> None:
        self._folder = folder
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._later: asyncio.TimerHandle | None = None
        self._pipe: int | None = self._open()
        if self._pipe is not None:
            self._loop.add_reader(self._pipe, self._look)
        if self._pipe is None or not folder.is_alive():  # the pipe of one that is over stays silent
            self._later = self._loop.call_later(0, self._look)

    def close(self) -> None:
        """Report nothing from now on."""
        if self._later is not None:
            self._later.cancel()
        if self._pipe is not None:
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None

    def _open(self) -> int | None:
        try:
            return os.open(self._folder.path / supervisor.ALIVE, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None

    def _look(self) -> None:
        self.close()
        if self._folder.is_alive():  # pipe and lock are let go one after the other
            self._later = self._loop.call_later(_AGAIN, self._look)
            return
        self._over()
