"""For pytest: a test that fails while the machine stands still runs again.

A machine that does not run the processes of a test for many seconds lets Leases and deadlines of real time pass, which is no
fault of what is tested. A failure counts that comes while all runs, or every time. The end of the run names the others.
"""

from __future__ import annotations

from collections.abc import Generator
from threading import Thread
from time import monotonic, sleep  # as they are: tests patch those of the module

import pytest
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

PERIOD = 0.2
"""Seconds between two looks at the clock."""
STILL = 1.5
"""Seconds without a look that are a standstill: most of the shortest limits of real time that are waited for."""
RUNS = 3
_PROPERTY = "stood still"


class Standstills:
    """How long this process did not run. Look in a thread: a loop that is busy stands no more still than its test lets it."""

    def __init__(self) -> None:
        self._longest = 0.0
        self._looked = monotonic()
        Thread(target=self._look_always, name="standstills", daemon=True).start()

    def _look_always(self) -> None:
        while True:
            sleep(PERIOD)
            self._look()

    def _look(self) -> None:
        now = monotonic()
        self._longest = max(self._longest, now - self._looked)
        self._looked = now

    def longest(self) -> float:
        """Return the seconds of the longest standstill since the last call."""
        self._look()
        found, self._longest = self._longest, 0.0
        return found


class RunAgain:
    """Runs tests, and names those that ran again."""

    def __init__(self) -> None:
        self._standstills = Standstills()
        self._again: dict[str, str] = {}
        self._broken: list[pytest.FixtureDef[object]] = []
        """Fixtures that failed: those of a session would fail for ever."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        try:
            return (yield)
        except BaseException:
            self._broken.append(fixturedef)
            raise

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        if not isinstance(item, pytest.Function):
            return None
        where = {"nodeid": item.nodeid, "location": item.location}
        item.ihook.pytest_runtest_logstart(**where)
        for run in range(1, RUNS + 1):
            self._standstills.longest()
            self._broken.clear()
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            still = self._standstills.longest()
            failed = [each for each in reports if each.failed]
            # The time limit is for all runs together: another one would have none.
            timed_out = any("from pytest-timeout" in each.longreprtext for each in failed)
            if not failed or timed_out or still < STILL or run == RUNS:
                break
            item._initrequest()
            for fixture in self._broken:
                fixture.finish(item._request)  # type: ignore[arg-type]
            lines = failed[0].longreprtext.splitlines()
            error = next((each for each in lines if each.startswith("E ")), "E failed")
            item.user_properties.append((_PROPERTY, f"{still:.1f} s: {error[1:].strip()}"))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(**where)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        notes = [str(value) for name, value in report.user_properties if name == _PROPERTY]
        if notes:
            self._again[report.nodeid] = "; ".join(notes)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self._again:
            terminalreporter.section("ran again, as the machine stood still")
            for test, notes in self._again.items():
                terminalreporter.write_line(f"{test}: {notes}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RunAgain(), "run-again")
