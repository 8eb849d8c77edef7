"""What becomes of a defect: caught by the tests of its ID, or not."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutants.defects import Defect
from tests.mutants.tree import Run, Tree

HANGS = 90.0
"""Seconds after which a test that hangs fails."""
LIMIT = 300.0
"""Seconds for the tests of one defect. Past that nothing is known."""
FAILED, NONE = 1, 5
"""Exit codes of pytest: a test failed, there was none."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a defect, by which test, in how many seconds."""

    defect: Defect
    verdict: str
    test: str = ""
    seconds: float = 0.0
    output: str = ""

    @property
    def caught(self) -> bool:
        return self.verdict == "caught"


def hunt(tree: Tree, defect: Defect) -> Fate:
    """Have the tests of a defect run with it, and the one that failed once more without it."""
    try:
        with tree.broken(defect):
            run = tree.run(defect, hangs=HANGS, limit=LIMIT)
    except ValueError as error:
        return Fate(defect, str(error))
    if run.code != FAILED or not run.failed:
        return Fate(defect, _miss(defect, run), defect.test, run.seconds, run.output)
    catcher = run.failed[0]
    sound = tree.run(defect, catcher, hangs=HANGS, limit=LIMIT, sound=True)
    seconds = run.seconds + sound.seconds
    if sound.code:
        verdict = "the test fails without the defect too"
        return Fate(defect, verdict, catcher, seconds, sound.output)
    return Fate(defect, "caught", catcher, seconds, run.output)


def _miss(defect: Defect, run: Run) -> str:
    if run.code == NONE:
        return f"no test of {defect.test} is marked {defect.id}"
    return "survived" if run.code == 0 else f"unknown: pytest ended with {run.code}"
