"""Runs the seeds of all systems in two processes with other hash seeds, and compares what happened in each.

    python -m tests.simulation.same_seed [--seeds 100] [SYSTEM ...]

The exit code is 1 where a seed gives two runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import click

from tests.simulation.systems import SYSTEMS

_HASH_SEEDS = ("1", "77")


def digests(story: str, first: int, seeds: int, hash_seed: str) -> dict[str, str]:
    """Run seeds in a process of its own; return the hash of all that happened, by seed."""
    command = ["-m", "ctrlruntime.envtest.simulation", story, "--digests"]
    run = subprocess.run(
        [sys.executable, *command, "--first", str(first), "--seeds", str(seeds)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    found: dict[str, str] = json.loads(run.stdout)["digests"]
    return found


def different(story: str, first: int, seeds: int) -> list[str]:
    """Return the seeds that give another run in a second process."""
    one, two = (digests(story, first, seeds, each) for each in _HASH_SEEDS)
    return sorted(seed for seed in {*one, *two} if one.get(seed) != two.get(seed))


@click.command()
@click.argument("systems", nargs=-1)
@click.option("--seeds", default=100, show_default=True, help="Of all systems together.")
@click.option("--first", default=0, show_default=True, help="The first seed of each.")
def main(systems: Sequence[str], seeds: int, first: int) -> None:
    """Compare the runs of some systems, or of all."""
    chosen = systems or tuple(SYSTEMS)
    share = -(-seeds // len(chosen))
    wrong = {name: different(SYSTEMS[name], first, share) for name in chosen}
    equal = share * len(chosen) - sum(map(len, wrong.values()))
    click.echo(json.dumps({"seeds": share * len(chosen), "equal": equal, "different": wrong}))
    sys.exit(1 if any(wrong.values()) else 0)


if __name__ == "__main__":
    main()
