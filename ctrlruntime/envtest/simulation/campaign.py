"""Many cases of one story: those that break a rule are shrunk to the few faults that it takes."""

from __future__ import annotations

import gc
import resource
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, takewhile
from typing import Any, Final

from ctrlruntime.envtest.simulation import sources
from ctrlruntime.envtest.simulation.oracles import LEASE
from ctrlruntime.envtest.simulation.run import Outcome, Story, run_case
from ctrlruntime.envtest.simulation.tape import MODES, Case
from ctrlruntime.envtest.simulation.zygote import in_child, in_children

_SHRINKING: Final = 80
"""Runs that the shrinking of one case may take."""
_LONGEST: Final = 1200.0
"""Seconds of real time for the cases in which users do the same."""
_LINES: Final = 40
_RENEWAL: Final = "/apis/coordination.k8s.io/v1/"
"""Lines of a trace that a reader is shown."""


@dataclass(slots=True)
class Report:
    """What a number of seeds came to."""

    seeds: int = 0
    seconds: float = 0.0
    """Of real time."""
    processor_seconds: float = 0.0
    """Of all runs, whatever else the machine does."""
    steps: int = 0
    virtual_seconds: float = 0.0
    red: list[Outcome] = field(default_factory=list)
    """Cases that break a rule, shrunk."""
    fired: Counter[str] = field(default_factory=Counter)
    """How often each kind of fault fired, with what it met."""
    digests: dict[str, str] = field(default_factory=dict)
    """By case: equal for equal runs, in whatever process."""

    def as_json(self) -> dict[str, Any]:
        """Return numbers for people and machines."""
        kinds: Counter[str] = Counter()
        for fault, count in self.fired.items():
            kinds[fault.partition(":")[0]] += count
        return {
            "seeds": self.seeds,
            "seconds": round(self.seconds, 1),
            "seeds per minute": round(60 * self.seeds / self.seconds) if self.seconds else 0,
            "processor seconds per seed": round(self.processor_seconds / max(1, self.seeds), 3),
            "virtual hours": round(self.virtual_seconds / 3600, 1),
            "steps": self.steps,
            "faults": dict(sorted(kinds.items())),
            "faults by what they met": dict(sorted(self.fired.items())),
            "red": [
                {"seed": str(each.case), "rule": each.rule, "actions": [*each.actions.values()]}
                for each in self.red
            ],
        }


def explore(
    story: Story,
    cases: Iterable[Case],
    *,
    workers: int = 1,
    minutes: float | None = None,
    most_red: int = 1,
    shrink: bool = True,
) -> Report:
    """Run cases, each in a fork of one warm process, until there are `most_red` that break a rule.

    With `minutes` no case begins after that time. Those that break a rule are shrunk, unless `shrink` is
    False. Raises ChildFailed for a run that does not end.
    """
    return in_child(
        lambda: _explored(story, cases, workers, minutes, most_red, shrink),
        timeout=float("inf"),
    )


def replay(story: Story, case: Case) -> Outcome:
    """Run one case in this process, where a debugger can stop. What it leaves behind stays as well."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with sources.installed():
            return _Cases(story).run(case)
    finally:
        if collecting:
            gc.enable()


class _Cases:
    """Runs cases, with the run without faults that each is compared with."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._calm: Outcome | None = None
        self._of_script: tuple[int, Outcome] | None = None

    @property
    def shares(self) -> bool:
        """Whether all cases are compared with one run: the story draws nothing of its own."""
        return self._calm is not None

    def warm_up(self, case: Case) -> Outcome:
        """Run it without faults. Where the story draws nothing of its own, that serves all cases."""
        calm = run_case(self._story, case.calm())
        if not calm.user_draws:
            self._calm = calm
        return calm

    def run(self, case: Case) -> Outcome:
        calm = self._calm_of(case)
        if calm.rule:
            return calm
        return run_case(self._story, case, calm.states)

    def run_all(self, cases: list[Case]) -> list[Outcome]:
        """Run cases one after the other, each in a fork: those in which users do the same are compared with one run."""
        self.prepare(cases[0])
        return [in_child(partial(self.run, case)) for case in cases]

    def prepare(self, case: Case) -> None:
        """Run what a case is compared with, where that has not been."""
        self._calm_of(case)

    def _calm_of(self, case: Case) -> Outcome:
        if self._calm is not None:
            return self._calm
        if self._of_script is None or self._of_script[0] != case.script:
            self._of_script = (case.script, run_case(self._story, case.calm(brief=True)))
        return self._of_script[1]


def _explored(
    story: Story,
    cases: Iterable[Case],
    workers: int,
    minutes: float | None,
    most_red: int,
    shrink: bool,
) -> Report:
    report = Report()
    runner = _Cases(story)
    began = time.monotonic()
    waiting = iter(cases)
    if (first := next(waiting, None)) is None:
        return report
    with sources.installed():
        calm = runner.warm_up(first)
        if calm.rule:
            report.red.append(calm)
            return report
        gc.collect()
        gc.freeze()
        until = float("inf") if minutes is None else began + 60 * minutes
        timely = takewhile(lambda _: time.monotonic() < until, chain([first], waiting))
        for outcome in _outcomes(runner, timely, workers):
            _add(report, outcome)
            if outcome.rule:
                smaller = partial(_shrunk, runner, outcome)
                report.red.append(in_child(smaller) if shrink else outcome)
                if len(report.red) >= most_red:
                    break
    report.seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report.processor_seconds = used.ru_utime + used.ru_stime
    return report


def _outcomes(runner: _Cases, cases: Iterable[Case], workers: int) -> Iterator[Outcome]:
    """Run cases in forks, some at a time."""
    if runner.shares:
        runs = (partial(runner.run, case) for case in cases)
        yield from (outcome for _, outcome in in_children(runs, workers=workers))
        return
    scripts = groupby(cases, key=lambda case: case.script)
    groups = (partial(runner.run_all, list(group)) for _, group in scripts)
    for _, outcomes in in_children(groups, workers=workers, timeout=_LONGEST):
        yield from outcomes


def _add(report: Report, outcome: Outcome) -> None:
    report.seeds += 1
    report.steps += outcome.steps
    report.virtual_seconds += outcome.seconds
    report.fired.update(outcome.fired)
    report.digests[str(outcome.case)] = outcome.digest


def _shrunk(runner: _Cases, red: Outcome) -> Outcome:
    """Return the outcome with as few actions and modes as break the same rule."""
    if not red.case.faults:
        return red
    runner.prepare(red.case)
    found = red
    runs = 0

    def breaks(actions: frozenset[int], modes: frozenset[str]) -> bool:
        nonlocal found, runs
        if runs >= _SHRINKING:
            return False
        runs += 1
        outcome = in_child(partial(runner.run, replace(red.case, actions=actions, modes=modes)))
        if outcome.rule == red.rule and outcome.case.faults:
            found = outcome
            return True
        return False

    actions, modes = frozenset(red.actions), frozenset(red.modes)
    for mode in MODES:
        if mode in modes and breaks(actions, modes - {mode}):
            modes -= {mode}
    size = len(actions)
    while size:
        for part in _pieces(sorted(actions), size):
            if breaks(actions - {*part}, modes):
                actions -= {*part}
        size //= 2
    return found


def _pieces(items: list[int], size: int) -> Iterator[list[int]]:
    """Return the items in pieces."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def description(outcome: Outcome) -> str:
    """Return what a reader needs of a case that breaks a rule."""
    lines = [f"{outcome.case} breaks a rule: {outcome.message}"]
    if not outcome.case.faults:
        lines = [f"without any fault a rule is broken: {outcome.message}"]
    if outcome.actions:
        lines += ["", "what happened:", *(f"  {each}" for each in outcome.actions.values())]
    # Renewals are most of what a process sends: they are of use only where a lease is what broke.
    shown = [each for each in outcome.lines if _RENEWAL not in each or outcome.rule == LEASE]
    lines += ["", f"the last {_LINES} of its requests and log lines (seconds, process):"]
    lines += [f"  {_shortened(each)}" for each in shown[-_LINES:]]
    return "\n".join(lines)


def _shortened(line: str) -> str:
    """Return a line of at most 300 characters: of a traceback the end, which names the error."""
    first, *more = line.splitlines() or [""]
    return f"{first[:200]} … {more[-1].strip()[:98]}" if more else first[:300]
