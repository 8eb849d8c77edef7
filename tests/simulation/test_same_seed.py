"""One seed, one run: in any process, with any order of sets, at any addresses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.simulation.same_seed import different
from tests.simulation.systems import SYSTEMS

STORY = "tests.simulation.stories:story"


def run(
    *options: str, hash_seed: str = "0", story: str = STORY
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ctrlruntime.envtest.simulation", story, *options],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.criterion("SIM-D3")
def test_the_same_seed_gives_the_same_run_in_two_processes() -> None:
    reports: list[dict[str, Any]] = []
    for hash_seed in ("1", "77"):
        report = run("--seeds", "10", "--digests", hash_seed=hash_seed)
        assert report.returncode == 0, report.stderr
        reports.append(json.loads(report.stdout))
    assert reports[0]["digests"] == reports[1]["digests"]
    assert len({*reports[0]["digests"].values()}) == 10
    assert reports[0]["faults by what they met"] == reports[1]["faults by what they met"]


@pytest.mark.criterion("SIM-41")
@pytest.mark.parametrize("system", sorted({*SYSTEMS} - {"library"}))
def test_the_same_seed_of_a_system_gives_the_same_run(system: str) -> None:
    """Seconds: a whole run of a system in each of two processes."""
    assert not different(SYSTEMS[system], first=0, seeds=1)


def test_a_red_seed_prints_what_happened_and_how_to_see_it_again() -> None:
    story = "tests.simulation.test_lost_update:story"
    found = run("--seeds", "100", story=story)
    assert found.returncode == 1
    seed = json.loads(found.stdout)["red"][0]["seed"]
    assert f"replay it with --seed {seed}" in found.stderr
    again = run("--seed", seed, story=story)
    assert (again.returncode, "others: m" in again.stdout) == (1, True)


@pytest.mark.parametrize(
    ("options", "says"),
    [(("--seed", "many"), "'many' is no seed"), (("--seed", "1/2/fast"), "is no seed")],
)
def test_a_seed_that_is_none_is_refused(options: tuple[str, ...], says: str) -> None:
    refused = run(*options)
    assert (refused.returncode, says in refused.stderr) == (2, True)
