"""Environments in which the wheel is, and nothing else of this repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import ROOT
from tests.envtest.kubectl.binaries import provisioned
from tests.packages import from_wheels

QUIETLY = ("-q", "--no-compile", "--disable-pip-version-check")


@dataclass(frozen=True, slots=True)
class Installed:
    """A virtual environment with the wheel in it, and an empty folder to work in."""

    prefix: Path
    folder: Path
    constraints: Path

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the environment's interpreter. The checkout is not on its path."""
        command = [str(self.prefix / "bin" / "python"), *arguments]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.variables() | environment,
            capture_output=True,
            text=True,
        )

    def install(self, *what: str) -> None:
        """Install into it, in the versions of the lock file."""
        done = self.pip("install", *QUIETLY, "-c", str(self.constraints), *what)
        assert done.returncode == 0, done.stderr

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Pip of the tests' own environment on this one: to install pip takes longer than to use it."""
        command = [sys.executable, "-m", "pip", "--python", str(self.prefix / "bin" / "python")]
        return subprocess.run(
            [*command, *arguments],
            cwd=self.folder,
            env=self.variables(),
            capture_output=True,
            text=True,
        )

    @staticmethod
    def variables() -> dict[str, str]:
        """What the machine says of itself and of its packages, and nothing of the checkout."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        kept |= {key: os.environ[key] for key in os.environ if key.startswith(("PIP_", "SSL_"))}
        return kept | from_wheels()


def pinned() -> list[str]:
    """The requirements of the lock file."""
    lock = (ROOT / "requirements.lock").read_text()
    return re.findall(r"^[\w.-]+(?:\[[\w,-]+\])?==[^\s\\]+", lock, re.MULTILINE)


def fresh(prefix: Path, wheel: Path, constraints: Path) -> dict[str, str]:
    """Variables of a shell in which this environment is active, and `pip` finds the wheel."""
    constraints.write_text("\n".join(pinned()) + "\n")
    pip = prefix / "bin" / "pip"  # the tests' own: to install pip takes longer than to use it
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {prefix}/bin/python "$@"\n')
    pip.chmod(0o755)
    packages = from_wheels()
    places = " ".join([str(wheel.parent), packages.get("PIP_FIND_LINKS", "")]).strip()
    system = ":".join(
        part for part in os.environ["PATH"].split(":") if not part.startswith(sys.prefix)
    )
    return {
        **packages,
        "PIP_FIND_LINKS": places,
        "PIP_CONSTRAINT": str(constraints),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PATH": f"{prefix}/bin:{provisioned().parent}:{system}",
        "VIRTUAL_ENV": str(prefix),
        "PYTHONPATH": "",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "KUBECONFIG": "/nonexistent",
    }
