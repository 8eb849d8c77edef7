"""For pytest: each run writes how long its tests and fixtures took, and fills its workers by what is known of that."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.durations.recorder import Recorder
from tests.durations.records import LATEST, ROOT, Records, kept
from tests.durations.units import units

_OUTPUT = "durations"
SLOWEST, COSTLIEST = 20, 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--durations-file",
        type=Path,
        default=LATEST,
        metavar="FILE",
        help=f"where to write the seconds of tests and fixtures (default: {LATEST.relative_to(ROOT)})",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Run(config), "durations-of-run")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Take the place of `--dist loadgroup`: groups stay together there, and the rest goes test by test."""
    return Longest(config, log) if config.option.dist == "loadgroup" else None


class Longest(LoadScopeScheduling):
    """Hands out units of tests, the longest first."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._unit_of: dict[str, str] = {}

    def schedule(self) -> None:
        if self.collection is not None:
            super().schedule()
            return
        tests: list[str] = next(iter(self.registered_collections.values()), [])
        planned = units(tests, kept().expected)
        self._unit_of = {test: name for name, members in planned.items() for test in members}
        self.workqueue = OrderedDict((name, {}) for name in planned)
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._unit_of[nodeid]


class Run:
    """Gathers the records of all workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._recorder = Recorder()
        self._records = self._recorder.records
        config.pluginmanager.register(self._recorder, "durations-recorder")

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_OUTPUT] = self._records.dumps()
        elif self._records.tests:
            place: Path = self._config.option.durations_file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self._records.dumps() + "\n")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        output = getattr(node, "workeroutput", {})
        if _OUTPUT in output:
            self._records.add(Records.loads(output[_OUTPUT]))

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not self._config.option.numprocesses:
            return
        terminalreporter.section("slowest tests, costliest fixtures (seconds)")
        for name, seconds in self._records.slowest_tests(SLOWEST):
            terminalreporter.write_line(f"{seconds:7.1f}  {name}")
        for name, times in self._records.costliest_fixtures(COSTLIEST):
            line = f"{times.seconds:7.1f}  fixture {name}, {times.times} times"
            terminalreporter.write_line(line)
