"""Both distributions, built as a release builds them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

from tests.docs.blocks import ROOT

EPOCH = "1767225600"
"""SOURCE_DATE_EPOCH of the builds: the first second of 2026."""
ENVTEST = ROOT / "distributions" / "envtest"
"""The test environment: a wheel, and no sdist."""
FOLDERS = {"ctrlruntime": ROOT, "ctrlruntime_manager": ROOT / "distributions" / "manager"}


@dataclass(frozen=True, slots=True)
class Built:
    """A wheel and the sdist beside it."""

    wheel: Path
    sdist: Path

    @property
    def metadata(self) -> Message:
        """The wheel's METADATA."""
        with ZipFile(self.wheel) as archive:
            (name,) = (each for each in archive.namelist() if each.endswith("dist-info/METADATA"))
            return Parser().parsestr(archive.read(name).decode())

    @property
    def names(self) -> list[str]:
        """The paths in the wheel."""
        with ZipFile(self.wheel) as archive:
            return archive.namelist()


def build(source: Path, folder: Path, *targets: str, **variables: str) -> Built:
    """Build the distribution of a folder. `targets`: options of hatchling; none builds both."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *targets]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **variables}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return Built(wheel, next(folder.glob("*.tar.gz"), wheel))
