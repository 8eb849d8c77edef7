"""`python -m tests.mutants`: puts one defect at a time into a copy; the test of its ID must notice.

python -m tests.mutants            all of them
python -m tests.mutants RF CL-14   those of families or lines
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

from tests.mutants.defects import Defect, chosen
from tests.mutants.runner import Fate, hunt
from tests.mutants.tree import Tree


@click.command(help=__doc__)
@click.argument("lines", nargs=-1)
@click.option("-n", "--workers", default=2, show_default=True, help="Defects at a time.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the tests of survivors said.")
def main(lines: tuple[str, ...], workers: int, verbose: bool) -> None:
    wanted = chosen(lines)
    if not wanted:
        sys.exit("no such defects")
    started = time.monotonic()
    fates = []
    for fate in _fates(wanted, workers):
        click.echo(_row(fate))
        fates.append(fate)
    failed = [fate for fate in fates if not fate.caught]
    click.echo(
        f"{len(fates)} defects: {len(fates) - len(failed)} caught, {len(failed)} not, "
        f"in {time.monotonic() - started:.0f} s"
    )
    for fate in failed if verbose else ():
        click.echo(f"\n== {fate.defect.id}: {fate.defect.says}\n{fate.output}")
    sys.exit(1 if failed else 0)


def _fates(defects: Sequence[Defect], workers: int) -> Iterator[Fate]:
    """In the order given; each is told of when it is known."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        idle: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for number in range(workers):
            idle.put(stack.enter_context(Tree(folder / str(number))))

        def fate(defect: Defect) -> Fate:
            tree = idle.get()
            try:
                return hunt(tree, defect)
            finally:
                idle.put(tree)

        yield from pool.map(fate, defects)


def _row(fate: Fate) -> str:
    head = f"{fate.verdict:<8} {fate.defect.id:<22} {fate.seconds:5.1f} s  {fate.defect.says}"
    return f"{head}\n{'':41}{fate.test}" if fate.test else head


main()
