"""For pytest: `--tests sample` and `--tests ci` leave out some of the heavy proofs, and the end of the run lists them.

Without the option every test runs that was asked for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from _pytest.terminal import TerminalReporter

from tests.mutants.selection import changed_defects, ids_of
from tests.samples.commit import commit_of
from tests.samples.plan import Choice, Collected, proofs, report, scenarios, select
from tests.selection import Tests, tests_of
from tests.xdist_groups import needs_real_server

_LEFT_OUT, _TOTALS = "sample_left_out", "sample_totals"
LISTING = pytest.StashKey["Listing"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tests",
        choices=[str(each) for each in Tests],
        default=str(Tests.ALL),
        help="of the heavy proofs a sample, or in addition what changed and a rotating fifth (ci); the end lists what was left out",
    )


def pytest_configure(config: pytest.Config) -> None:
    if tests_of(config) is not Tests.ALL:
        config.stash[LISTING] = listing = Listing(config)
        config.pluginmanager.register(listing, "sample-listing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if tests_of(config) is Tests.ALL:
        return
    listing = config.stash[LISTING]
    tests = [Collected(item.nodeid, needs_real_server(item)) for item in items]
    wanted = changed_defects(config.rootpath, listing.choice.commit)
    choice = replace(listing.choice, wanted=ids_of(wanted, (test.id for test in tests)))
    chosen = select(tests, proofs(), choice)
    others = [item for item in items if item.nodeid not in chosen.kept]
    listing.collected(chosen.left_out, chosen.totals)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.nodeid in chosen.kept]


class Listing:
    """Prints what was left out. Every worker of xdist collects the same; one of them reports it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left_out: Counter[str] = Counter()
        self._totals: Counter[str] = Counter()
        self.choice = Choice(
            commit=commit_of(config.rootpath),
            ci=tests_of(config) is Tests.CI,
            chosen=tuple(scenario.test for scenario in scenarios()),
        )

    def collected(self, left_out: Mapping[str, int], totals: Mapping[str, int]) -> None:
        """Record the numbers of this process."""
        self._left_out, self._totals = Counter(left_out), Counter(totals)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_LEFT_OUT] = json.dumps(self._left_out)
            self._config.workeroutput[_TOTALS] = json.dumps(self._totals)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        output = getattr(node, "workeroutput", {})
        if _LEFT_OUT in output:
            self.collected(json.loads(output[_LEFT_OUT]), json.loads(output[_TOTALS]))

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not self._left_out:
            return
        terminalreporter.section("left out of this run")
        for line in report(self._left_out, self._totals, self.choice):
            terminalreporter.write_line(line)
