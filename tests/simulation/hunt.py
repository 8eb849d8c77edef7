"""Which seeded defects a simulated story finds, after how many seeds, and how few actions that takes.

    python -m tests.simulation.hunt [--seeds 2000] [--record] [ID or family ...]

The defects are those of `tests/mutants/defects.toml` in what managers run. Not all of them can be seen by a schedule: a
wrong metric, say, cannot. Prints a line for each and the numbers as JSON; --record keeps them in found.json.
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

from tests.mutants.defects import Defect, defects, named
from tests.mutants.tree import ROOT
from tests.simulation.systems import SYSTEMS

FOUND: Final = Path(__file__).parent / "found.json"
"""What --record keeps: by defect, the system whose story finds it, the rule, the seeds it took, and the actions."""
_SYSTEMS: Final = {
    "internal/cloud/": "cloud",
    "internal/cosmos/": "cosmos",
    "internal/tenancy/": "tenancy",
    "ctrlruntime/gate/": "tenancy",
    "ctrlruntime/lifecycle/": "tenancy",
    "ctrlruntime/rollout/": "tenancy",
    **{
        f"ctrlruntime/{name}": "library"
        for name in (
            "backoff", "cache/", "client/", "controller/", "manager/", "queue/", "resources/",
        )
    },
}  # fmt: skip
_PACKAGES: Final = ("apis", "config", "ctrlruntime", "internal", "manager", "tests")
_LIMIT: Final = 3600.0
"""Seconds for the seeds of one defect."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the seeds showed of a defect."""

    defect: Defect
    system: str
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
        return f"found    {what}\n{'':9}{self.system}: {self.rule}, seed {self.seed}, the {self.tried}th, {self.actions} faults"

    def as_json(self) -> dict[str, Any]:
        """Return what is kept."""
        return {
            "system": self.system,
            "rule": self.rule,
            "seed": self.seed,
            "seeds": self.tried,
            "actions": self.actions,
        }


def system_of(defect: Defect) -> str:
    """Return the system whose story runs the file of a defect; empty: none does."""
    return next((name for part, name in _SYSTEMS.items() if defect.file.startswith(part)), "")


def find(defect: Defect, system: str, seeds: int) -> Finding:
    """Run the seeds in a copy with the defect, until one breaks a rule."""
    with tempfile.TemporaryDirectory(prefix="simulated-") as name:
        folder = Path(name)
        own = Path(defect.file).parts[0]
        for each in _PACKAGES:
            if each != own:
                (folder / each).symlink_to(ROOT / each)
        shutil.copytree(ROOT / own, folder / own, ignore=shutil.ignore_patterns("*.pyc*"))
        path = folder / defect.file
        path.write_text(defect.apply(path.read_text()))
        command = ["-m", "ctrlruntime.envtest.simulation", SYSTEMS[system], "--seeds", str(seeds)]
        run = subprocess.run(
            [sys.executable, *command, "--workers", "1"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT,
        )
    if run.returncode == 0:
        return Finding(defect, system, tried=seeds)
    return _finding(defect, system, run)


def _finding(defect: Defect, system: str, run: subprocess.CompletedProcess[str]) -> Finding:
    try:
        report: dict[str, Any] = json.loads(run.stdout)
        (red,) = report["red"]
    except ValueError:  # a run that does not end, or cannot begin
        return Finding(
            defect, system, (run.stderr.strip().splitlines() or ["it ends"])[-1], tried=1
        )
    tried = max(1, report["seeds"])
    return Finding(defect, system, red["rule"], red["seed"], tried, len(red["actions"]))


def _found(wanted: list[Defect], system: str, seeds: int, workers: int) -> Iterator[Finding]:
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda defect: find(defect, system or system_of(defect), seeds), wanted)


def kept() -> dict[str, dict[str, Any]]:
    """Return what was recorded, by the keys of defects."""
    found: dict[str, dict[str, Any]] = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    return found


def _keep(finding: Finding) -> None:
    """Record a finding; defects that are no more go."""
    found = {**kept(), finding.defect.key: finding.as_json()}
    known = {each.key: found[each.key] for each in defects() if each.key in found}
    FOUND.write_text(json.dumps(known, indent=2) + "\n")


@click.command()
@click.argument("lines", nargs=-1)
@click.option("--seeds", default=2000, show_default=True, help="How many seeds a defect has.")
@click.option("--system", default="", help="Whose story is run; by default by the file of each.")
@click.option("--record", is_flag=True, help="Keep in found.json what is found.")
@click.option("--missing", is_flag=True, help="Only those that found.json does not have.")
@click.option("-n", "--workers", default=2, show_default=True, help="Defects at a time.")
def main(
    lines: tuple[str, ...], seeds: int, system: str, record: bool, missing: bool, workers: int
) -> None:
    """Look for the defects of some IDs or families; for all that managers run without any."""
    recorded = kept() if missing else {}
    wanted = [each for each in named(lines) if system_of(each) and each.key not in recorded]
    findings = []
    for finding in _found(wanted, system, seeds, workers):
        click.echo(str(finding))
        findings.append(finding)
        if record and finding.rule:
            _keep(finding)
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
