"""From the outcomes of tests to the outcome of each line of the catalogue. No I/O, no pytest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.catalogue.requirements import Requirement


class Outcome(StrEnum):
    """Of a test, and of all tests of a line."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    MISSING = "missing"
    NOT_RUN = "not run"
    """Its tests belong to what the run leaves out, or need a real API server that is not there."""
    LEFT_OUT = "left out"


_GRAVITY = (Outcome.FAILED, Outcome.PASSED, Outcome.SKIPPED, Outcome.NOT_RUN)
"""Of several outcomes the first of these counts: one failure spoils it, one proof outweighs a skip."""


class Record:
    """What the tests of each line came to, and which lines have tests that the run leaves out."""

    def __init__(self) -> None:
        self._tests: dict[str, dict[str, Outcome]] = {}
        self.not_run: set[str] = set()

    def note(self, requirement: str, test: str, outcome: Outcome) -> None:
        """One phase of a test; a later phase makes it worse, never better."""
        tests = self._tests.setdefault(requirement, {})
        known = tests.get(test)
        if known in (None, Outcome.PASSED) or outcome is Outcome.FAILED:
            tests[test] = outcome

    def tests(self, requirement: str) -> Mapping[str, Outcome]:
        return self._tests.get(requirement, {})


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line and what its tests say."""

    requirement: Requirement
    outcome: Outcome
    tests: Mapping[str, Outcome]

    @property
    def acceptable(self) -> bool:
        """A line of the core is proven; any other is, or says why it is left out. What did not run may be."""
        if self.outcome is Outcome.LEFT_OUT:
            return not self.requirement.core
        return self.outcome in (Outcome.PASSED, Outcome.NOT_RUN)

    @property
    def functions(self) -> dict[str, int]:
        """Tests without their parameters, and how many there are of each."""
        counted: dict[str, int] = {}
        for test in self.tests:
            function = test.partition("[")[0]
            counted[function] = counted.get(function, 0) + 1
        return counted


def judge(requirements: Iterable[Requirement], record: Record) -> list[Verdict]:
    """In the order of the catalogue."""
    return [Verdict(line, _outcome(line, record), record.tests(line.id)) for line in requirements]


def _outcome(requirement: Requirement, record: Record) -> Outcome:
    outcomes = record.tests(requirement.id).values()
    for outcome in _GRAVITY:
        if outcome in outcomes:
            return outcome
    if requirement.id in record.not_run:
        return Outcome.NOT_RUN
    return Outcome.LEFT_OUT if requirement.left_out else Outcome.MISSING


def summary(verdicts: Iterable[Verdict], book: str = "requirements") -> str:
    """One line: how many, how many of them core, and what they came to."""
    verdicts = list(verdicts)
    core = [verdict for verdict in verdicts if verdict.requirement.core]
    counts = [
        f"{sum(verdict.outcome is outcome for verdict in verdicts)} {outcome}"
        for outcome in Outcome
        if any(verdict.outcome is outcome for verdict in verdicts)
    ]
    proven = sum(verdict.outcome is Outcome.PASSED for verdict in core)
    return f"{len(verdicts)} {book}: {', '.join(counts)}; P0: {proven} of {len(core)} passed"


def table(verdicts: Iterable[Verdict]) -> list[str]:
    """ID, priority, outcome and tests of every line."""
    lines = []
    for verdict in verdicts:
        head = f"{verdict.requirement.id}  P{verdict.requirement.priority}  {verdict.outcome:<8}"
        proofs = [
            name if count == 1 else f"{name} ({count})" for name, count in verdict.functions.items()
        ]
        first, *rest = proofs or [verdict.requirement.left_out]
        lines.append(f"{head}  {first}".rstrip())
        lines += [f"{'':{len(head)}}  {proof}" for proof in rest]
    return lines
