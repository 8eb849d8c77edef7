"""Looks after the process of one local run, apart from the manager.

A program of its own:

    python -P supervisor.py FOLDER LOCK_FD

Needs the standard library alone, so that it starts in no time. It is handed the lock of the run,
held; it and the task hold it, and the pipe `alive`, until the last of them is gone, which is how
all others find out. Orders come by the pipe `orders`; how it went is in `outcome.json`.

It has no parent that waits: whoever starts it waits for a process that ends once the run is claimed.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

STARTED = "started"
ALIVE = "alive"
ORDERS = "orders"
OUTCOME = "outcome.json"
PLAN = "plan.json"
LOG = "log"
CANCEL = "cancel"
"""A file of that name requests the end."""
MARK = "TASK_RUN_FOLDER"
"""Variable that every process of the run has, so that those it left behind are found."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_LARGEST_LOG = 16 << 20
"""Bytes of a log; of a larger one the first half is cut off."""
_LOOK = 1.0
"""Seconds between two looks whether the folder is still there."""
_MOST_SWEEPS = 500
_PR_SET_PDEATHSIG = 1


class Supervisor:
    """One run, from its start to its outcome."""

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        self._lock = lock
        self._plan = json.loads((folder / PLAN).read_text())
        self._reason = "Ended"
        self._wake, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        os.set_blocking(self._wake, False)
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        self._orders = os.open(folder / ORDERS, os.O_RDWR | os.O_NONBLOCK)
        self._alive = os.open(folder / ALIVE, os.O_RDWR)

    def claim(self) -> bool:
        """Whether this is the first and only start of the task."""
        try:
            os.close(os.open(self._folder / STARTED, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    def run(self) -> None:
        """Until nothing of the run is left but its outcome."""
        code: int | None = None
        message = ""
        if self._is_to_end():
            self._reason = "Cancelled"
        else:
            try:
                code = self._carry_out()
            except (OSError, ValueError) as error:
                message = f"the task could not be started: {error}"
        end_all(str(self._folder))
        with contextlib.suppress(FileNotFoundError):  # the folder was taken away
            forget(Path(self._plan["secrets"]))
            write_outcome(self._folder, code, self._reason, message)

    def _carry_out(self) -> int:
        deadline = time.monotonic() + self._plan["timeout"]
        file = self._plan.get("environment_file", "")
        more = read_environment(Path(file)) if file else {}
        with (self._folder / LOG).open("ab") as log:
            task = subprocess.Popen(  # noqa: S603 - the manager's own command
                self._plan["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**more, **self._plan["environment"]},
                cwd=self._plan["workdir"],
                pass_fds=(self._lock, self._alive),
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),
            )
        if not self._wait(task, deadline, heed_orders=True):
            self._reason = "TimedOut" if time.monotonic() >= deadline else "Cancelled"
            task.send_signal(signal.SIGTERM)
            self._wait(task, time.monotonic() + self._plan["grace"], heed_orders=False)
        if task.poll() is None:
            task.kill()
        return task.wait()

    def _wait(self, task: "subprocess.Popen[bytes]", until: float, *, heed_orders: bool) -> bool:
        """Whether the task ended by itself, before `until` and before a cancellation."""
        while task.poll() is None:
            left = until - time.monotonic()
            if left <= 0 or (heed_orders and self._is_to_end()):
                return False
            select.select([self._wake, self._orders], [], [], min(left, _LOOK))
            self._drain(self._wake)
            self._drain(self._orders)
            shorten(self._folder / LOG)
        return True

    def _is_to_end(self) -> bool:
        return (self._folder / CANCEL).exists() or not (self._folder / PLAN).exists()

    def _on_signal(self, number: int, _frame: object) -> None:
        """Stop the task: the machine is going down, or the run is cancelled."""
        if number != signal.SIGCHLD:
            with contextlib.suppress(FileNotFoundError):
                (self._folder / CANCEL).touch()

    def _drain(self, pipe: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(pipe, 4096):
                pass


def shorten(log: Path, largest: int = _LARGEST_LOG) -> None:
    """Cut the first half off a log that is too large, at a line. What the task writes meanwhile may be lost."""
    with contextlib.suppress(FileNotFoundError), log.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size <= largest:
            return
        file.seek(size - largest // 2)
        kept = file.read()
        _, newline, whole = kept.partition(b"\n")
        kept = whole if newline else kept
        file.truncate(0)
        # The task appends, so what it writes from now on comes behind this.
        file.seek(0)
        file.write(f"... {size - len(kept)} bytes were cut off\n".encode() + kept)


def read_environment(file: Path) -> dict[str, str]:
    """Return the variables of a file with lines NAME=VALUE; empty lines and comments (#) are skipped.

    Values are literal. Raises OSError, and ValueError with the number of a line that is none, and
    never with its text.
    """
    found = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip().isidentifier():
            raise ValueError(f"line {number} of {file} is not NAME=VALUE")
        found[name.strip()] = value
    return found


def write_outcome(folder: Path, code: int | None, reason: str, message: str) -> None:
    """For whoever holds the lock."""
    outcome = {"code": code, "reason": reason, "message": message, "finished_at": time.time()}
    draft = folder / f"{OUTCOME}.part"
    draft.write_text(json.dumps(outcome))
    draft.replace(folder / OUTCOME)


def forget(secrets: Path) -> None:
    """Secrets lie on the disk only while the task may read them."""
    for path in sorted(secrets.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def end_all(folder: str) -> None:
    """SIGKILL for every process of the run, until there is none.

    Found by the variable that they inherit: the number of a process may be another one's by now, and
    a daemon leaves its group. Does nothing where there is no /proc.
    """
    for _ in range(_MOST_SWEEPS):
        pids = list(_marked(folder))
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(folder: str) -> Iterator[int]:
    wanted = f"{MARK}={folder}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0") and not _is_dead(path.parent):
                yield int(path.parent.name)
        except OSError:
            continue


def _is_dead(process: Path) -> bool:
    return (process / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def _die_with(parent: int) -> Callable[[], None]:
    """For Linux: the kernel kills the task when this process is killed."""
    libc = ctypes.CDLL(None)

    def arrange() -> None:
        if sys.platform == "linux":
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    return arrange


def main() -> None:
    """End at once; the supervisor goes on in a process of its own."""
    os.umask(0o077)
    supervisor = Supervisor(Path(sys.argv[1]), int(sys.argv[2]))
    if not supervisor.claim() or os.fork():
        os._exit(0)
    supervisor.run()


if __name__ == "__main__":
    main()
