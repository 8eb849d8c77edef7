"""Many seeds of the systems' stories, as many systems at a time as there are cores: what `make simulate` runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from ctrlruntime.envtest.simulation.faults import KINDS
from tests.simulation.systems import SHARES, SYSTEMS


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.option("--system", default="", help="The system; empty: each of them gets its share.")
@click.option("--seeds", type=int, help="How many seeds to run, of all systems together.")
@click.option("--minutes", type=float, help="For how long instead, all systems together.")
def main(options: tuple[str, ...], system: str, seeds: int | None, minutes: float | None) -> None:
    """Run seeds of one system or of all. OPTIONS go to `ctrlruntime.envtest.simulation`.

    The exit code is that of the last system in which a rule was broken.
    """
    if system and system not in SYSTEMS:
        raise click.BadParameter(f"there are {', '.join(SYSTEMS)}", param_hint="--system")
    chosen = [system] if system else [*SHARES]
    at_once = 1 if system else os.cpu_count() or 1
    # One system after the other would leave cores idle while each begins, and while its last seeds end.
    alone = () if system else ("--workers", "1")

    def run(name: str) -> subprocess.CompletedProcess[str]:
        share: tuple[str, ...] = ()
        if minutes is not None:
            share = ("--minutes", str(minutes * min(at_once, len(chosen)) / len(chosen)))
        elif seeds is not None:
            share = ("--seeds", str(seeds if system else share_of(name, seeds)))
        command = [sys.executable, "-m", "ctrlruntime.envtest.simulation", SYSTEMS[name]]
        return subprocess.run(
            [*command, *share, *alone, *options], capture_output=True, text=True, check=False
        )

    code, reports = 0, []
    with ThreadPoolExecutor(at_once) as pool:
        for name, done in zip(chosen, pool.map(run, chosen), strict=True):
            click.echo(f"{name}:\n{done.stderr}", err=True, nl=False)
            click.echo(done.stdout, nl=False)
            code = done.returncode or code
            if done.stdout.startswith("{"):
                reports.append(json.loads(done.stdout))
    if len(reports) > 1:
        found = total(reports)
        click.echo(json.dumps(found, indent=2))
        click.echo(table(found), err=True)
    sys.exit(code)


def share_of(system: str, seeds: int) -> int:
    """Return how many of all seeds a system gets."""
    return -(-seeds * SHARES[system] // sum(SHARES.values()))


def total(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the systems came to together: each kind of fault, those that did not fire too."""
    fired = Counter(dict.fromkeys(KINDS, 0))
    for each in reports:
        fired.update(each["faults"])
    return {
        "seeds": sum(each["seeds"] for each in reports),
        "seconds": round(sum(each["seconds"] for each in reports), 1),
        "faults": dict(sorted(fired.items())),
        "rarest fault": min(fired.values()),
        "red": sum(len(each["red"]) for each in reports),
    }


def table(found: dict[str, Any]) -> str:
    """Return how often each kind of fault fired, the rarest first, and that for 1,000 seeds."""
    lines = [f"{'fault':<20}{'fired':>8}{'of 1,000 seeds':>16}"]
    for kind, count in sorted(found["faults"].items(), key=lambda each: (each[1], each[0])):
        lines.append(f"{kind:<20}{count:>8}{1000 * count / max(1, found['seeds']):>16.0f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
