"""For pytest: scenarios of the tenancy system that a real server cannot show, by name.

They are skipped, each with what the server lacks; a run that left any out lists them. `untold.md` is
the list for the oldest server, kept by hand: a scenario that is not in it fails the run, and so does
a run of everything that leaves out less.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

TABLE = Path(__file__).parent / "untold.md"
PROPERTY = "untold"
_ROW = re.compile(r"\| `(?P<scenario>[^`]+)` \| (?P<why>[^|]+) \|")

Untold = tuple[str, str]
"""A scenario, and what is lacking."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers of xdist send their reports to the controller
        config.pluginmanager.register(Listing(config), "untold-scenarios")


def untold(nodeid: str, why: str) -> tuple[str, object]:
    """The property of a test that says so; without server and group, which the test's ID tells too."""
    name = nodeid.rpartition("/")[2].partition("@")[0]
    for written, meant in (
        ("[kube-apiserver]", ""),
        ("kube-apiserver-", ""),
        ("-kube-apiserver", ""),
    ):
        name = name.replace(written, meant)
    return PROPERTY, f"{name}\n{why}"


def listed() -> set[Untold]:
    """What the table says."""
    rows = _ROW.finditer(TABLE.read_text())
    return {(row["scenario"], row["why"].strip()) for row in rows}


class Listing:
    """Collects them from all workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: set[Untold] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY:
                scenario, _, why = str(value).partition("\n")
                self._found.add((scenario, why))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._wrong() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not self._found:
            return
        terminalreporter.section("scenarios that the real server cannot show")
        for scenario, why in sorted(self._found):
            terminalreporter.write_line(f"{scenario}: {why}")
        for scenario, why in sorted(self._wrong()):
            terminalreporter.write_line(f"not in {TABLE.name}: {scenario}: {why}", red=True)

    def _wrong(self) -> set[Untold]:
        return self._found - listed()
