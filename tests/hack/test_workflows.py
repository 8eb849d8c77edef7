"""The workflows of a public forge call what there is: targets of make, Pythons of the metadata, servers that are supported."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrlruntime.envtest.assets import OLDEST_SUPPORTED

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = frozenset(
    re.findall(r"^([a-z][a-z-]*)(?:[ a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
)


def jobs(path: Path) -> dict[str, Any]:
    """Return the jobs of a workflow."""
    return dict(yaml.safe_load(path.read_text())["jobs"])


def commands(job: dict[str, Any]) -> list[str]:
    """Return the scripts of a job, once for each target of its matrix."""
    targets = job.get("strategy", {}).get("matrix", {}).get("target", [""])
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    return [
        script.replace("${{ matrix.target }}", target) for target in targets for script in scripts
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_target_of_make_exists(path: Path) -> None:
    called = {
        word
        for job in jobs(path).values()
        for script in commands(job)
        for line in re.findall(r"\bmake ([^\n|;&]+)", script)
        for word in line.split()
        if "=" not in word
    }
    assert called
    assert called <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_script_is_valid_and_nothing_may_write_by_default(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    for job in jobs(path).values():
        for script in commands(job):
            subprocess.run(["bash", "-n", "-c", re.sub(r"\$\{\{.*?\}\}", "x", script)], check=True)


def test_the_matrix_has_every_python_of_the_metadata_and_the_oldest_server() -> None:
    matrix = jobs(ROOT / ".github" / "workflows" / "ci.yml")["test"]["strategy"]["matrix"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    pythons = [c.rpartition(" ")[2] for c in classifiers if re.search(r":: 3\.\d+$", c)]
    assert matrix["python"] == pythons
    oldest, newest = matrix["server"]
    assert oldest.startswith("v{}.{}.".format(*OLDEST_SUPPORTED))
    assert newest == ""
