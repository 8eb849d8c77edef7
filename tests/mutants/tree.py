"""A copy of the repository that may be broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.defects import Defect
from tests.mutants.listing import TARGET

ROOT = Path(__file__).parents[2]
_COPIED = ("apis", "config", "ctrlruntime", "docs", "internal", "manager", "tests")
_FILES = ("README.md", "pyproject.toml")
_PYTEST = ("-q", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of pytest came to."""

    code: int
    output: str
    seconds: float


class Tree:
    """One copy. Not for two runs at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stamp = int(time.time())
        ignored = shutil.ignore_patterns("__pycache__")
        for name in _COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
        for name in _FILES:
            shutil.copy2(ROOT / name, folder / name)

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

    def pytest(self, *arguments: str, limit: float, **environment: str) -> Run:
        """Runs the copy's tests on the copy's code. A run of more than `limit` seconds is ended."""
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *_PYTEST, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
        return Run(process.returncode, output, time.perf_counter() - started)

    def collected(self, paths: Sequence[str]) -> dict[str, set[str]]:
        """The tests of some files, each with what it is marked with."""
        listing = self.folder / "listing.json"
        plugin = ("-p", "tests.mutants.listing")
        run = self.pytest("--collect-only", *plugin, *paths, limit=120, **{TARGET: str(listing)})
        if run.code:
            raise RuntimeError(f"the tests cannot be collected:\n{run.output}")
        return {node: set(marks) for node, marks in json.loads(listing.read_text()).items()}
