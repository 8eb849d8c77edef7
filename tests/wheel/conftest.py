"""The wheel, built once for all tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of ctrlruntime as `make wheel` builds it; that of the test environment is beside it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    projects = [str(ROOT), str(ROOT / "distributions" / "envtest")]
    subprocess.run([*command, "--wheel-dir", str(folder), *projects], check=True)
    (built,) = folder.glob("ctrlruntime-*.whl")
    return built
