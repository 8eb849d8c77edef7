"""Runs kubectl."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ctrlruntime.json import Json


@dataclass(slots=True)
class Result:
    code: int
    out: str
    err: str


@dataclass(slots=True)
class Kubectl:
    """One kubectl as one user, in one namespace. Calling it returns standard output."""

    binary: Path
    kubeconfig: Path
    folder: Path
    namespace: str = "default"
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Standard output of a command that must succeed."""
        result = self.run(*arguments, stdin=stdin)
        assert result.code == 0, f"kubectl {' '.join(arguments)}: {result.err or result.out}"
        return result.out

    def json(self, *arguments: str) -> Json:
        return json.loads(self(*arguments, "-o", "json"))

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env=self.environ(),
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on; use it as a context and end it."""
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environ(),
        )

    def command(self, *arguments: str) -> list[str]:
        return [
            str(self.binary),
            *arguments[:1],
            f"--kubeconfig={self.kubeconfig}",
            f"--cache-dir={self.folder / 'cache'}",
            f"--namespace={self.namespace}",
            *arguments[1:],
        ]

    def environ(self) -> dict[str, str]:
        # It ends before it could run out of memory, so it need not spend time on saving it.
        own = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GOGC": "off"}
        return own | self.env

    def table(self, *arguments: str) -> list[list[str]]:
        """The rows of a `get`, header first; columns are two spaces or more apart."""
        lines = self(*arguments).splitlines()
        return [re.split(r"\s{2,}", line.strip()) for line in lines if line.strip()]
