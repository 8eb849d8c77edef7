"""A copy of the repository that defects are put into."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.mutants.defects import Defect
from tests.mutants.plugin import CHOICE

ROOT = Path(__file__).parents[2]
HANGS = 90.0
"""Seconds after which a test that hangs fails."""
LIMIT = 300.0
"""Seconds for the tests of one defect. Past that they are killed, and the result is unknown."""
_COPIED = ("apis", "config", "ctrlruntime", "docs", "internal", "manager", "tests")
_FILES = ("LICENSE", "README.md", "pyproject.toml", "dist/install.yaml", "dist/install-all.yaml")
_PYTEST = ("-q", "-x", "-p", "no:cacheprovider", "-p", "tests.mutants.plugin")


@dataclass(frozen=True, slots=True)
class PytestRun:
    """The exit code of pytest, its output, how long it took, and which tests failed."""

    code: int
    output: str
    seconds: float
    failed: tuple[str, ...]


class Tree:
    """One copy, and two processes that run its tests. Not for two runs at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stamp = int(time.time())
        self._output, self._answer = folder / "output.txt", folder / "answer.json"
        ignored = shutil.ignore_patterns("*.pyc.*")  # bytecode that another process writes
        for name in _COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
        for name in _FILES:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for name in [name for name in environment if name.startswith("PYTEST_")]:
            del environment[name]
        self._with_defect, self._without_defect = (
            subprocess.Popen(
                [sys.executable, "-m", "tests.mutants.preload", *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for arguments in ((), ("own",))
        )
        for process in (self._with_defect, self._without_defect):
            self._receive(process)  # its imports are over before a defect is there

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in (self._with_defect, self._without_defect):
            process.communicate()

    @contextmanager
    def with_defect(self, defect: Defect) -> Iterator[None]:
        """Put a defect into the copy and take it out again. Raises ValueError if its line is not there."""
        path = self.folder / defect.file
        text = path.read_text()
        self._write(path, defect.apply(text))
        try:
            yield
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        """Write with a new second: Python compares those of source and bytecode."""
        path.write_text(text)
        self._stamp += 2
        os.utime(path, (self._stamp, self._stamp))

    def run(self, defect: Defect, first: str) -> PytestRun:
        """Run the tests of a defect, `first` before all others, up to the first one that fails."""
        # How a test failed is not looked at, and to show it takes as long as a short test.
        return self._run(self._with_defect, defect, first, "--tb=line", defect.test)

    def run_without_defect(self, defect: Defect, test: str) -> PytestRun:
        """Run one test of a defect that is not there: the code need not be imported anew."""
        return self._run(self._without_defect, defect, test, "--tb=short", test)

    def _run(
        self, process: subprocess.Popen[str], defect: Defect, first: str, *arguments: str
    ) -> PytestRun:
        started = time.perf_counter()
        self._answer.unlink(missing_ok=True)
        answer = str(self._answer)
        choice = {"mark": defect.id, "test": defect.test, "first": first, "answer": answer}
        self._send(
            process,
            arguments=[*_PYTEST, f"--timeout={HANGS}", *arguments],
            environment={CHOICE: json.dumps(choice)},
            output=str(self._output),
        )
        overdue = threading.Timer(LIMIT, os.killpg, (self._receive(process), signal.SIGKILL))
        overdue.start()
        code = self._receive(process)
        overdue.cancel()
        failed = json.loads(self._answer.read_text()) if self._answer.exists() else ()
        output = self._output.read_text(errors="replace")
        return PytestRun(code, output, time.perf_counter() - started, tuple(failed))

    @staticmethod
    def _send(process: subprocess.Popen[str], **run: object) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(run) + "\n")
        process.stdin.flush()

    @staticmethod
    def _receive(process: subprocess.Popen[str]) -> int:
        """Return the next number. Raise RuntimeError when the process has ended; standard error has the reason."""
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that runs tests has ended: {process.wait()}")
        return int(line)
