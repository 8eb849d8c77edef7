"""The processes of local runs: they outlive managers, so a test has to end those that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from internal.cloud.runs.local import supervisor
from internal.cloud.runs.local.folder import RunFolder

LIMIT = 120.0
"""Seconds for processes that end by themselves: longer than the grace of a run that is cancelled."""


def processes_of(folder: Path) -> Mapping[int, str]:
    """Return the processes of runs below a folder, by PID: supervisors by their argument, others by their mark."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            mark = f"{supervisor.MARK}={folder}/".encode()
            if mark in (path / "environ").read_bytes() or _supervises(command, folder):
                found[int(path.name)] = command
    found.pop(os.getpid(), None)
    return found


def _supervises(command: str, folder: Path) -> bool:
    return supervisor.__file__ in command and f" {folder}/" in command


def end_runs(folder: Path) -> None:
    """Cancel every run below a folder of runs, as their provider does, and wait for the end of its processes."""
    for run in folder.glob("[!.]*/*"):
        RunFolder(run).cancel()
    assert_none_remains(folder)


def assert_none_remains(folder: Path) -> None:
    """Wait for processes that are about to end; kill those that are not, and fail."""
    end = time.monotonic() + LIMIT
    while processes_of(folder) and time.monotonic() < end:
        time.sleep(0.05)
    left = processes_of(folder)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"processes outlive the test: {left}"
