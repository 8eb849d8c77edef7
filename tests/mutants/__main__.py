"""`python -m tests.mutants`: puts one defect at a time into a copy; a test marked with its ID must fail.

python -m tests.mutants            all of them
python -m tests.mutants RF CL-14   those of families or lines
python -m tests.mutants --changed  those whose file or tests changed since the commit before (CHANGED_SINCE: another)
"""

from __future__ import annotations

import queue
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import click

from tests.mutants.defects import Defect, named, recorded, write_record
from tests.mutants.runner import Result, run_defect
from tests.mutants.selection import changed_defects
from tests.mutants.tree import ROOT, Tree
from tests.samples.commit import commit_of


@click.command(help=__doc__)
@click.argument("lines", nargs=-1)
@click.option("-n", "--workers", default=2, show_default=True, help="Defects at a time.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show the output of tests that missed a defect."
)
@click.option("--changed", is_flag=True, help="Only those whose file or tests changed.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write which test caught each defect, as JSON (tests/mutants/caught.json: that test runs first).",
)
def main(
    lines: tuple[str, ...], workers: int, verbose: bool, changed: bool, record: Path | None
) -> None:
    wanted = named(lines)
    if changed:
        commit = commit_of(ROOT)
        concerned = changed_defects(ROOT, commit)
        wanted = [defect for defect in wanted if defect in concerned]
        since = commit.since or "an unknown commit: a shallow clone?"
        click.echo(f"{len(wanted)} seeded defects of what changed since {since}")
    if not wanted:
        sys.exit(0 if changed else "no such defects")
    started = time.monotonic()
    results = []
    for result in _results(wanted, min(workers, len(wanted))):
        click.echo(_row(result))
        results.append(result)
    caught = {result.defect.key: result.test for result in results if result.caught}
    failed = [result for result in results if not result.caught]
    click.echo(
        f"{len(results)} defects: {len(caught)} caught, {len(failed)} not, "
        f"in {time.monotonic() - started:.0f} s"
    )
    if record:
        write_record(record, caught)
    elif others := sum(recorded().get(key) != test for key, test in caught.items()):
        click.echo(f"{others} caught by another test than in tests/mutants/caught.json (--record)")
    for result in failed if verbose else ():
        click.echo(f"\n== {result.defect.key}\n{result.output}")
    sys.exit(1 if failed else 0)


def _results(defects: Sequence[Defect], workers: int) -> Iterator[Result]:
    """Yield the results in the order of the defects, each as soon as it is there."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        idle: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for number in range(workers):
            idle.put(stack.enter_context(Tree(folder / str(number))))

        def result(defect: Defect) -> Result:
            tree = idle.get()
            try:
                return run_defect(tree, defect)
            finally:
                idle.put(tree)

        yield from pool.map(result, defects)


def _row(result: Result) -> str:
    head = (
        f"{result.verdict:<8} {result.defect.id:<22} {result.seconds:5.1f} s  {result.defect.says}"
    )
    return f"{head}\n{'':41}{result.test}" if result.test else head


main()
