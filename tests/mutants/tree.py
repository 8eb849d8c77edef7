"""A copy of the repository that may be broken."""

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

from tests.mutants.choice import CHOICE
from tests.mutants.defects import Defect

ROOT = Path(__file__).parents[2]
_COPIED = ("apis", "config", "ctrlruntime", "docs", "internal", "manager", "tests")
_FILES = ("LICENSE", "README.md", "pyproject.toml", "dist/install.yaml")
_PYTEST = ("-q", "-x", "--tb=short", "-p", "no:cacheprovider", "-p", "tests.mutants.choice")


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of pytest came to."""

    code: int
    output: str
    seconds: float
    failed: tuple[str, ...]


class Tree:
    """One copy, and a process that runs its tests. Not for two runs at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stamp = int(time.time())
        self._output, self._answer = folder / "output.txt", folder / "answer.json"
        ignored = shutil.ignore_patterns("*.pyc.*")  # bytecode that somebody is writing
        for name in _COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
        for name in _FILES:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for name in [name for name in environment if name.startswith("PYTEST_")]:
            del environment[name]
        self._warm, self._sound = (
            subprocess.Popen(
                [sys.executable, "-m", "tests.mutants.preload", *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for arguments in ((), ("sound",))
        )
        for process in (self._warm, self._sound):
            self._hear(process)  # has imported what there is, before anything is broken

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in (self._warm, self._sound):
            process.communicate()

    @contextmanager
    def broken(self, defect: Defect) -> Iterator[None]:
        """With one defect. Raises ValueError if its line is not there."""
        path = self.folder / defect.file
        sound = path.read_text()
        self._write(path, defect.apply(sound))
        try:
            yield
        finally:
            self._write(path, sound)

    def _write(self, path: Path, text: str) -> None:
        """Bytecode is told apart by seconds, and defects are made faster than that."""
        path.write_text(text)
        self._stamp += 2
        os.utime(path, (self._stamp, self._stamp))

    def run(
        self, defect: Defect, *tests: str, hangs: float, limit: float, sound: bool = False
    ) -> Run:
        """Have the copy's tests say what they think of the copy's code, up to the first that fails.

        Of `tests` (by default where the defect says to look) those that are marked with its ID. One
        test may take `hangs` seconds; a run of more than `limit` seconds is ended. `sound`: nothing is
        broken, and so our code need not be imported anew.
        """
        process = self._sound if sound else self._warm
        started = time.perf_counter()
        self._answer.unlink(missing_ok=True)
        choice = {"mark": defect.id, "test": defect.test, "answer": str(self._answer)}
        self._tell(
            process,
            arguments=[*_PYTEST, f"--timeout={hangs}", *(tests or [defect.test])],
            environment={CHOICE: json.dumps(choice)},
            output=str(self._output),
        )
        overdue = threading.Timer(limit, os.killpg, (self._hear(process), signal.SIGKILL))
        overdue.start()
        code = self._hear(process)
        overdue.cancel()
        failed = json.loads(self._answer.read_text()) if self._answer.exists() else ()
        output = self._output.read_text(errors="replace")
        return Run(code, output, time.perf_counter() - started, tuple(failed))

    @staticmethod
    def _tell(process: subprocess.Popen[str], **run: object) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(run) + "\n")
        process.stdin.flush()

    @staticmethod
    def _hear(process: subprocess.Popen[str]) -> int:
        """Raise RuntimeError when the process is gone; standard error says why."""
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that runs tests has ended: {process.wait()}")
        return int(line)
