"""The release workflow: actions by digest, and a token of the forge's identity only where nothing of ours is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hack.test_workflows import WORKFLOWS, commands, jobs

RELEASE = next(path for path in WORKFLOWS if path.stem == "release")
ROOT = RELEASE.parents[2]


def uses(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the actions of a job with their inputs."""
    return {
        step["uses"].partition("@")[0]: step.get("with", {})
        for step in job["steps"]
        if "uses" in step
    }


@pytest.mark.criterion("S-F20")
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_named_by_a_commit_with_its_version_beside_it(path: Path) -> None:
    lines = re.findall(r"uses: (\S+)(.*)", path.read_text())
    assert lines
    for action, rest in lines:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", rest), action


@pytest.mark.criterion("S-F20")
def test_the_identity_token_is_only_in_jobs_that_run_no_code_of_the_repository() -> None:
    assert "id-token" not in str(yaml.safe_load(RELEASE.read_text())["permissions"])
    holders = {
        name: job for name, job in jobs(RELEASE).items() if "id-token" in job.get("permissions", {})
    }
    assert holders
    for name, job in holders.items():
        assert "actions/checkout" not in uses(job), name
        assert not any("make " in script or ".venv" in script for script in commands(job)), name


@pytest.mark.criterion("S-F20")
def test_everything_that_is_installed_is_attested_and_the_image_is_scanned_before_it_is_signed() -> (
    None
):
    found = jobs(RELEASE)
    (attest,) = (job for job in found.values() if "actions/attest-build-provenance" in uses(job))
    subjects = [
        line
        for step in attest["steps"]
        for line in str(step.get("with", {}).get("subject-path", "")).split()
    ]
    for suffix in (".whl", ".tar.gz", ".tgz", "install.yaml", ".cdx.json"):
        assert any(line.endswith(suffix) for line in subjects), suffix
    assert "cosign sign" in " ".join(commands(attest))
    (image,) = (name for name, job in found.items() if "anchore/scan-action" in uses(job))
    assert image in attest["needs"]
    assert uses(found[image])["anchore/scan-action"]["fail-build"] is True
    assert "make image-all" in " ".join(commands(found[image]))
    assert found["publish"]["needs"] == "attest"


@pytest.mark.criterion("S-F20")
@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.node-tools"])
def test_every_base_of_an_image_takes_a_digest(name: str) -> None:
    bases = re.findall(r"^FROM (\S+)", (ROOT / name).read_text(), re.MULTILINE)
    assert bases
    assert all(base.endswith("${BASE_DIGEST}") for base in bases)


@pytest.mark.criterion("U-7")
def test_a_tag_publishes_image_chart_and_release_of_what_was_attested() -> None:
    found = jobs(RELEASE)
    release = " ".join(commands(found["release"]))
    assert found["release"]["needs"] == "publish"
    assert "helm push dist/ctrlruntime-manager-*.tgz" in release
    assert "sha256sum --check SHA256SUMS" in release
    assert re.search(r"gh release create .* dist/\*", release, re.DOTALL)
    assert "actions/checkout" not in uses(found["release"])
