"""Many seeds of the systems' stories, one system after the other: what `make simulate` runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from ctrlruntime.envtest.simulation.faults import KINDS
from tests.simulation.systems import SYSTEMS


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
    chosen = [system] if system else [*SYSTEMS]
    share: list[str] = []
    if minutes is not None:
        share = ["--minutes", str(minutes / len(chosen))]
    elif seeds is not None:
        share = ["--seeds", str(-(-seeds // len(chosen)))]
    code, reports = 0, []
    for name in chosen:
        click.echo(f"{name}:", err=True)
        command = [sys.executable, "-m", "ctrlruntime.envtest.simulation", SYSTEMS[name]]
        run = subprocess.run(
            [*command, *share, *options], stdout=subprocess.PIPE, text=True, check=False
        )
        click.echo(run.stdout, nl=False)
        code = run.returncode or code
        if run.stdout.startswith("{"):
            reports.append(json.loads(run.stdout))
    if len(reports) > 1:
        found = total(reports)
        click.echo(json.dumps(found, indent=2))
        click.echo(table(found), err=True)
    sys.exit(code)


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
