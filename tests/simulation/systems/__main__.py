"""Many seeds of the systems' stories, one system after the other: what `make simulate` runs."""

from __future__ import annotations

import subprocess
import sys

import click

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
    code = 0
    for name in chosen:
        click.echo(f"{name}:", err=True)
        command = [sys.executable, "-m", "ctrlruntime.envtest.simulation", SYSTEMS[name]]
        code = subprocess.run([*command, *share, *options], check=False).returncode or code
    sys.exit(code)


if __name__ == "__main__":
    main()
