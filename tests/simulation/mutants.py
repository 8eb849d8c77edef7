"""Which seeded defects of the library the simulated story finds, with the first seed of each and how far it shrinks.

    python -m tests.simulation.mutants [--seeds 2000] [ID or family ...]

The defects are those of `tests/mutants/defects.toml` in the packages that a controller runs on. Not all of them can be
seen by a schedule: a wrong metric, say, cannot. Prints one line for each, and the numbers as JSON at the end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

from tests.mutants.defects import Defect, named
from tests.mutants.tree import ROOT

_PACKAGES: Final = ("backoff", "cache", "client", "controller", "manager", "queue", "resources")
_STORY: Final = "tests.simulation.stories:story"
_LIMIT: Final = 3600.0
"""Seconds for the seeds of one defect."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the seeds showed of a defect."""

    defect: Defect
    rule: str = ""
    """The rule that broke; empty: none did."""
    seed: str = ""
    tried: int = 0
    """Seeds up to the one that broke it."""
    actions: int = 0
    """Faults that it takes, once shrunk."""

    def __str__(self) -> str:
        what = f"{self.defect.id:<22} {self.defect.says}"
        if not self.rule:
            return f"missed   {what}"
        return f"found    {what}\n{'':9}{self.rule}, seed {self.seed}, the {self.tried}th, {self.actions} faults"


def find(defect: Defect, story: str, seeds: int) -> Finding:
    """Run the seeds in a copy with the defect, until one breaks a rule."""
    with tempfile.TemporaryDirectory(prefix="simulated-") as name:
        folder = Path(name)
        for each in ("ctrlruntime", "tests/simulation"):
            shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("*.pyc*"))
        path = folder / defect.file
        path.write_text(defect.apply(path.read_text()))
        command = ["-m", "ctrlruntime.envtest.simulation", story, "--seeds", str(seeds)]
        run = subprocess.run(
            [sys.executable, *command, "--workers", "1"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT,
        )
    if run.returncode == 0:
        return Finding(defect, tried=seeds)
    return _finding(defect, run)


def _finding(defect: Defect, run: subprocess.CompletedProcess[str]) -> Finding:
    try:
        report: dict[str, Any] = json.loads(run.stdout)
        (red,) = report["red"]
    except ValueError:  # a run that does not end, or cannot begin
        return Finding(defect, (run.stderr.strip().splitlines() or ["it ends"])[-1])
    tried = max(1, report["seeds"])
    return Finding(defect, red["rule"], red["seed"], tried, len(red["actions"]))


def _found(defects: list[Defect], story: str, seeds: int, workers: int) -> Iterator[Finding]:
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda defect: find(defect, story, seeds), defects)


@click.command()
@click.argument("lines", nargs=-1)
@click.option("--seeds", default=2000, show_default=True, help="How many seeds a defect has.")
@click.option("--story", default=_STORY, show_default=True, help="What is run: module:function.")
@click.option("-n", "--workers", default=2, show_default=True, help="Defects at a time.")
def main(lines: tuple[str, ...], seeds: int, story: str, workers: int) -> None:
    """Look for the defects of some IDs or families; for all of the library without any."""
    files = tuple(f"ctrlruntime/{package}" for package in _PACKAGES)
    wanted = [each for each in named(lines) if each.file.startswith(files)]
    findings = []
    for finding in _found(wanted, story, seeds, workers):
        click.echo(str(finding))
        findings.append(finding)
    found = [each for each in findings if each.rule]
    numbers = {
        "defects": len(findings),
        "found": len(found),
        "median of seeds": median([each.tried for each in found] or [0]),
        "most faults": max((each.actions for each in found), default=0),
    }
    click.echo(json.dumps(numbers))


if __name__ == "__main__":
    main()
