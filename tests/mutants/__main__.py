"""`python -m tests.mutants`: puts one defect at a time into a copy; the test of its ID must notice.

python -m tests.mutants            all of them
python -m tests.mutants RF CL-14   those of families or lines
"""

from __future__ import annotations

import queue
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from tests.mutants.defects import Defect, chosen
from tests.mutants.tree import Run, Tree

HANGS = 45
"""Seconds after which a test that hangs fails."""
LIMIT = 150.0
"""Seconds for the tests of one defect. Past that nothing is known."""
TESTS_FAILED = 1


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a defect."""

    defect: Defect
    verdict: str
    tests: str = ""
    seconds: float = 0.0
    output: str = ""

    @property
    def caught(self) -> bool:
        return self.verdict == "caught"


@click.command(help=__doc__)
@click.argument("lines", nargs=-1)
@click.option("-n", "--workers", default=2, show_default=True, help="Defects at a time.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the tests of survivors said.")
def main(lines: tuple[str, ...], workers: int, verbose: bool) -> None:
    wanted = chosen(lines)
    if not wanted:
        sys.exit("no such defects")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        fates = Hunt(Path(folder), workers).run(wanted)
    failed = [fate for fate in fates if not fate.caught]
    click.echo(
        f"{len(fates)} defects: {len(fates) - len(failed)} caught, {len(failed)} not, "
        f"in {time.monotonic() - started:.0f} s"
    )
    for fate in failed if verbose else ():
        click.echo(f"\n== {fate.defect.id}: {fate.defect.says}\n{fate.output}")
    sys.exit(1 if failed else 0)


class Hunt:
    """Some copies, and the tests that are run in them."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        self._workers = workers
        for number in range(workers):
            self._trees.put(Tree(folder / str(number)))

    def run(self, defects: Sequence[Defect]) -> list[Fate]:
        """In the order given; each is told of when it is known."""
        nodes = self._nodes(defects)
        with ThreadPoolExecutor(self._workers) as pool:
            sound = pool.map(
                self._sound, _halves(sorted(set().union(*nodes.values())), self._workers)
            )
            for run in sound:
                if run.code:
                    raise SystemExit(f"without a defect the tests must pass:\n{run.output}")
            fates = []
            for fate in pool.map(lambda defect: self._hunt(defect, nodes[defect]), defects):
                click.echo(_row(fate))
                fates.append(fate)
        return fates

    def _nodes(self, defects: Sequence[Defect]) -> dict[Defect, list[str]]:
        """One collection for all."""
        tree = self._trees.get()
        files = sorted({defect.test.partition("::")[0] for defect in defects})
        marks = tree.collected(files)
        self._trees.put(tree)
        return {defect: _tests_of(defect, marks) for defect in defects}

    def _sound(self, nodes: Sequence[str]) -> Run:
        tree = self._trees.get()
        try:
            return tree.pytest(*nodes, limit=600) if nodes else Run(0, "", 0.0)
        finally:
            self._trees.put(tree)

    def _hunt(self, defect: Defect, nodes: Sequence[str]) -> Fate:
        tree = self._trees.get()
        try:
            if not nodes:
                return Fate(defect, f"no test of {defect.test} is marked {defect.id}")
            with tree.broken(defect):
                run = tree.pytest("-x", "--tb=line", f"--timeout={HANGS}", *nodes, limit=LIMIT)
        except ValueError as error:
            return Fate(defect, str(error))
        finally:
            self._trees.put(tree)
        return Fate(defect, _verdict(run), _catcher(run) or defect.test, run.seconds, run.output)


def _tests_of(defect: Defect, marks: Mapping[str, set[str]]) -> list[str]:
    return [node for node, names in marks.items() if defect.chooses(node) and defect.id in names]


def _halves(nodes: Sequence[str], parts: int) -> list[list[str]]:
    return [list(nodes[part::parts]) for part in range(parts)]


def _verdict(run: Run) -> str:
    if run.code == TESTS_FAILED:
        return "caught"
    return "survived" if run.code == 0 else f"unknown: pytest ended with {run.code}"


def _catcher(run: Run) -> str:
    """The test that failed."""
    failures = [line for line in run.output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failures[0].split()[1].partition("[")[0] if failures else ""


def _row(fate: Fate) -> str:
    head = f"{fate.verdict:<8} {fate.defect.id:<22} {fate.seconds:5.1f} s  {fate.defect.says}"
    return f"{head}\n{'':41}{fate.tests}" if fate.tests else head


main()
