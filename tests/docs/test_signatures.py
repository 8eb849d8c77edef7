"""The file of signatures is that of the code, and a change of it is in the changelog."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import ctrlruntime
from hack import signatures
from tests.docs.blocks import ROOT

CHANGELOG = "CHANGELOG.md"
FILE = signatures.FILE.relative_to(ROOT).as_posix()


def git(folder: Path, *arguments: str) -> list[str]:
    """Return the lines that git prints."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def unexplained(folder: Path) -> bool:
    """Return whether the signatures of the checkout, or of their last commit, changed and the changelog did not."""
    edited = git(folder, "diff", "--name-only", "HEAD", "--", FILE, CHANGELOG)
    if FILE in edited:
        return CHANGELOG not in edited
    (last,) = git(folder, "log", "-1", "--format=%H", "--", FILE)
    return CHANGELOG not in git(folder, "show", "--name-only", "--format=", last)


@pytest.mark.criterion("D-40")
def test_the_file_is_that_of_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert signatures.main(["--check"]) == 0
    other = tmp_path / "signatures.txt"
    other.write_text(
        signatures.FILE.read_text().replace("every: float | None=None", "every: float")
    )
    monkeypatch.setattr(signatures, "FILE", other)
    assert signatures.main(["--check"]) == 1


@pytest.mark.criterion("D-40")
def test_every_exported_name_is_in_it() -> None:
    lines = signatures.FILE.read_text().splitlines()
    found = {
        word for line in lines if line.startswith("ctrlruntime ") for word in line.split()[1:3]
    }
    assert {*ctrlruntime.__all__} <= {name.partition("(")[0].rstrip(":") for name in found}


@pytest.mark.criterion("D-40")
def test_a_change_of_the_surface_is_in_the_changelog(tmp_path: Path) -> None:
    assert not unexplained(ROOT), f"say in {CHANGELOG} what users see of the change in {FILE}"
    (tmp_path / "docs").mkdir()
    git(tmp_path, "init", "--quiet")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for text in ("1", "2"):
        (tmp_path / FILE).write_text(text)
        (tmp_path / CHANGELOG).write_text("1")
        git(tmp_path, "add", ".")
        git(tmp_path, *identity, "commit", "--quiet", "-m", text)
        assert unexplained(tmp_path) is (text == "2")
    (tmp_path / FILE).write_text("3")
    (tmp_path / CHANGELOG).write_text("2")
    assert not unexplained(tmp_path)
