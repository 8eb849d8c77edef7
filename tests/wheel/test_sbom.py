"""`make sbom` lists what the image has: every package of the run-time lock, its version and its hashes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ctrlruntime
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.xdist_group("wheel")

Package = tuple[str, str, frozenset[str]]


def write(folder: Path, name: str) -> Path:
    """Write the bill by the command that `make sbom` runs."""
    result = folder / name
    environment = {**os.environ, "PYTHON": sys.executable, "SOURCE_DATE_EPOCH": "1767225600"}
    done = subprocess.run(
        [ROOT / "hack" / "sbom.sh", result], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return result


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file; its tool has checked it against CycloneDX's schema."""
    return write(tmp_path_factory.mktemp("sbom"), "bill.json")


@pytest.fixture
def bill(written: Path) -> dict[str, Any]:
    """Return the bill as it was written."""
    return dict(json.loads(written.read_text()))


def test_it_lists_each_package_of_the_run_time_lock_with_its_hashes(bill: dict[str, Any]) -> None:
    listed = {package(component) for component in bill["components"]}
    assert len(listed) == len(bill["components"])
    assert listed == locked()
    for component in bill["components"]:
        assert component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"


def package(component: dict[str, Any]) -> Package:
    """Return what a component of the bill is."""
    found = [each for place in component["externalReferences"] for each in place.get("hashes", [])]
    assert {each["alg"] for each in found} == {"SHA-256"}
    return component["name"], component["version"], frozenset(each["content"] for each in found)


def locked() -> set[Package]:
    """Return what the image installs, as the lock's own entries name it."""
    command = [sys.executable, "hack/runtime-lock.py", "requirements.lock", "pyproject.toml"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    heads = [re.match(r"([\w.-]+)==([\w.!+]+)", entry) for entry in entries]
    return {
        (head[1], head[2], frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)))
        for head, entry in zip(heads, entries, strict=True)
        if head
    }


def test_it_describes_the_manager_of_this_version(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"]) == ("ctrlruntime-manager", ctrlruntime.__version__)
    assert root["licenses"][0]["license"]["id"] == "Apache-2.0"
    assert bill["metadata"]["timestamp"].startswith("2026-01-01T00:00:00")


def test_the_same_commit_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    assert write(tmp_path, "again.json").read_bytes() == written.read_bytes()
