"""`python -m tests.durations [FILE]`: keeps the durations of a run (default: the last one) in the repository."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tests.durations.records import KEPT, LATEST, Records, kept, merged, write


@click.command(help=__doc__)
@click.argument("file", type=click.Path(path_type=Path), default=LATEST)
def main(file: Path) -> None:
    if not file.exists():
        sys.exit(f"{file} is missing; a run of tests writes it: make test TESTS=all")
    records = Records.loads(file.read_text())
    write(merged(kept(), records))
    click.echo(f"{KEPT.name}: {len(records.tests)} tests of this run")


if __name__ == "__main__":
    main()
