"""What hack/envtest-assets.sh believes of its cache: nothing that does not match its recorded sum."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HACK = Path(__file__).parents[2] / "hack"


def bash(script: str, *arguments: Path | str) -> subprocess.CompletedProcess[str]:
    """Run with the functions that provisioning scripts share."""
    text = f'set -euo pipefail; source "{HACK / "debian.sh"}"; {script}'
    command = ["bash", "-c", text, "test", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    program = tmp_path / "made"
    program.write_text("a program")
    for name in ("one", "two"):
        assert bash('put "$1" "$2" "$3"', program, tmp_path / "cache", name).returncode == 0
    return tmp_path / "cache"


def is_current(cache: Path, *names: str) -> bool:
    return bash('is_current "$@"', cache, *names).returncode == 0


def test_what_was_put_there_is_current_and_can_be_run(cache: Path) -> None:
    assert is_current(cache, "one", "two")
    assert (cache / "one").stat().st_mode & 0o777 == 0o755
    assert not is_current(cache, "one", "three")


@pytest.mark.parametrize("damage", ["changed", "gone", "no sums"])
def test_what_was_damaged_is_made_again(cache: Path, damage: str) -> None:
    if damage == "changed":
        (cache / "one").write_text("a pr0gram")
    elif damage == "gone":
        (cache / "one").unlink()
    else:
        (cache / "SHA256SUMS").unlink()
    assert not is_current(cache, "one", "two")
    assert is_current(cache, "two") is (damage != "no sums")


def test_one_run_waits_for_the_other(tmp_path: Path) -> None:
    script = 'lock "$1"; [[ -z $(ls "$1"/work 2>/dev/null) ]] || exit 9; touch "$1/work"; sleep 0.3; rm "$1/work"'
    text = f'set -euo pipefail; source "{HACK / "debian.sh"}"; {script}'
    runs = [
        subprocess.Popen(["bash", "-c", text, "test", tmp_path], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert sum("waiting for another run" in words for words in said) == 2
