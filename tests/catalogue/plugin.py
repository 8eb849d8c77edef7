"""For pytest: which tests prove which line of the catalogue, and whether all lines are proven.

A run of the whole suite fails when a line is not proven; no test runs twice for it. With
`--requirements` only the tests of the catalogue run, and the table of all lines is printed.
"""

from __future__ import annotations

import pytest
from _pytest.terminal import TerminalReporter

from tests.catalogue.outcomes import Outcome, Record, Verdict, judge, summary, table
from tests.catalogue.requirements import catalogue, families

_PROPERTY = "requirement"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--requirements",
        action="store_true",
        help="run only tests of the requirement catalogue and print what they say about each line",
    )
    parser.addoption(
        "--requirement",
        action="append",
        default=[],
        metavar="ID",
        help="the same for one line or family (WQ-01, WQ); may be given several times",
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker of xdist sends its reports to the controller
        config.pluginmanager.register(Judge(config), "requirements-judge")


def requirements_of(item: pytest.Item) -> list[str]:
    """The IDs of the catalogue that a test is marked with. Raises UsageError for one that is none."""
    marked = [str(name) for mark in item.iter_markers("criterion") for name in mark.args]
    prefixes = {family.prefix for family in families()}
    for name in marked:
        if name.partition("-")[0] in prefixes and name not in catalogue():
            raise pytest.UsageError(f"{item.nodeid}: {name} is not in the requirement catalogue")
    return [name for name in marked if name in catalogue()]


def is_wanted(name: str, wanted: list[str]) -> bool:
    """Whether an ID is named, or its family is."""
    return name in wanted or name.partition("-")[0] in wanted


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    others = []
    wanted = config.getoption("--requirement")
    for item in items:
        names = requirements_of(item)
        item.user_properties += [(_PROPERTY, name) for name in names]
        if not any(not wanted or is_wanted(name, wanted) for name in names):
            others.append(item)
    if (wanted or config.getoption("--requirements")) and others:
        gone = set(others)
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in gone]


class Judge:
    """Collects outcomes, from all workers, and gives the verdict of a whole run."""

    def __init__(self, config: pytest.Config) -> None:
        self._wanted: list[str] = config.getoption("--requirement")
        self._alone = bool(config.getoption("--requirements") or self._wanted)
        self._whole = _is_whole(config)
        self._record = Record()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            outcome = Outcome.FAILED
        elif report.skipped:
            outcome = Outcome.SKIPPED
        elif report.when == "call":
            outcome = Outcome.PASSED
        else:
            return
        for name, value in report.user_properties:
            if name == _PROPERTY:
                self._record.note(str(value), report.nodeid, outcome)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._whole and session.exitstatus == pytest.ExitCode.OK and self._unproven():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not (self._whole or self._alone):
            return
        verdicts = self._verdicts()
        unproven = self._unproven()
        terminalreporter.section("requirements")
        for line in table(verdicts if self._alone else unproven):
            terminalreporter.write_line(line)
        if self._alone and self._whole and unproven:
            terminalreporter.section("requirements not proven")
            for line in table(unproven):
                terminalreporter.write_line(line)
        terminalreporter.write_line(summary(verdicts))

    def _verdicts(self) -> list[Verdict]:
        verdicts = judge(catalogue().values(), self._record)
        if self._whole:
            return verdicts
        return [v for v in verdicts if v.tests or is_wanted(v.requirement.id, self._wanted)]

    def _unproven(self) -> list[Verdict]:
        return [verdict for verdict in self._verdicts() if not verdict.acceptable]


def _is_whole(config: pytest.Config) -> bool:
    """Whether nothing was chosen: neither paths nor names nor marks."""
    narrowed = (
        "requirement",
        "keyword",
        "markexpr",
        "lf",
        "collectonly",
        "deselect",
        "ignore",
        "ignore_glob",
    )
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not any(
        config.getoption(name, None) for name in narrowed
    )
