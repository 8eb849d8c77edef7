"""Type checkers see what the reader sees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    ["user_kind.py", pytest.param("user_controller.py", marks=pytest.mark.criterion("DX-3"))],
)
def test_a_users_program_is_clean_under_mypy_strict(program: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--cache-dir",
        str(tmp_path),
        f"tests/typing/{program}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
