"""Run the tests of a defect: they catch it, or they do not."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutants.defects import Defect, recorded
from tests.mutants.tree import PytestRun, Tree

FAILED, NONE = 1, 5
"""Exit codes of pytest: a test failed, there was none."""


@dataclass(frozen=True, slots=True)
class Result:
    """Whether a defect was caught, by which test, in how many seconds."""

    defect: Defect
    verdict: str
    test: str = ""
    seconds: float = 0.0
    output: str = ""

    @property
    def caught(self) -> bool:
        return self.verdict == "caught"


def run_defect(tree: Tree, defect: Defect) -> Result:
    """Run the tests of a defect with it, and the one that failed once more without it."""
    first = recorded().get(defect.key, "")
    try:
        with tree.with_defect(defect):
            run = tree.run(defect, first)
    except ValueError as error:
        return Result(defect, str(error))
    if run.code != FAILED or not run.failed:
        return Result(defect, _miss(defect, run), defect.test, run.seconds, run.output)
    catcher = run.failed[0]
    without = tree.run_without_defect(defect, catcher)
    seconds = run.seconds + without.seconds
    if without.code:
        verdict = "the test fails without the defect too"
        return Result(defect, verdict, catcher, seconds, without.output)
    return Result(defect, "caught", catcher, seconds, run.output)


def _miss(defect: Defect, run: PytestRun) -> str:
    if run.code == NONE:
        return f"no test of {defect.test} is marked {defect.id}"
    return "survived" if run.code == 0 else f"unknown: pytest ended with {run.code}"
