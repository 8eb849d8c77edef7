"""The code to compare with: an earlier commit of this repository, exported into the cache folder once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ctrlruntime.envtest.assets import cache_folder

REPOSITORY = Path(__file__).resolve().parents[1]

PACKAGES = ("ctrlruntime", "benchmarks", "apis", "internal", "manager")


def exported(commit: str, repository: Path = REPOSITORY) -> Path:
    """Return a folder with the tree of ``commit``. Raises SystemExit if the repository lacks it."""
    name = _git(repository, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if name is None:
        raise SystemExit(
            f"the repository has no commit {commit} to compare with: fetch its history "
            "(git fetch --unshallow), name another by BASE=commit, or run with BASE=none"
        )
    sha = name.decode().strip()
    folder = cache_folder().parent / "bench" / f"base-{sha[:12]}"
    if not folder.exists():
        archive = _git(repository, "archive", "--format=tar", sha) or b""
        part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
        part.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(part)], input=archive, check=True)
        part.rename(folder)
    return folder


def compile_code(folder: Path) -> None:
    """Compile the programs and the library of a tree, as those of an image are.

    Otherwise a tree that runs for the first time, or where no bytecode may be written, is charged with it.
    """
    packages = [str(folder / name) for name in PACKAGES]
    command = [sys.executable, "-m", "compileall", "-q", *packages]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


def environment(folder: Path) -> dict[str, str]:
    """The environment of a process that imports from ``folder`` what this one imports from here."""
    return {**os.environ, "PYTHONPATH": str(folder)}


def _git(repository: Path, *arguments: str) -> bytes | None:
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, check=False
    )
    return done.stdout if done.returncode == 0 else None
