"""For pytest: records how long each test and each fixture of this process takes."""

from __future__ import annotations

import time
from collections.abc import Generator

import pytest

from tests.durations.records import FixtureTimes, Records, bare


class Recorder:
    """Fills `records`. A fixture's time is its own: that of fixtures made meanwhile is theirs."""

    def __init__(self) -> None:
        self.records = Records()
        self._phases: dict[str, dict[str, float]] = {}
        self._inner = [0.0]
        self._ending: dict[int, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        began = time.perf_counter()
        self._inner.append(0.0)
        try:
            return (yield)
        finally:
            took = time.perf_counter() - began
            own = took - self._inner.pop()
            self._inner[-1] += took
            times = self._times(fixturedef)
            times.times += 1
            times.setup += own
            # Added last, it runs first: from then on the fixture is being torn down.
            fixturedef.addfinalizer(lambda: self._ends(fixturedef))

    def _ends(self, fixturedef: pytest.FixtureDef[object]) -> None:
        self._ending[id(fixturedef)] = time.perf_counter()

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[object]) -> None:
        began = self._ending.pop(id(fixturedef), None)
        if began is not None:
            self._times(fixturedef).teardown += time.perf_counter() - began

    def _times(self, fixturedef: pytest.FixtureDef[object]) -> FixtureTimes:
        where = f" ({fixturedef.baseid})" if fixturedef.baseid else ""
        return self.records.fixtures.setdefault(f"{fixturedef.argname}{where}", FixtureTimes())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        name = bare(item.nodeid)
        phases = self._phases.setdefault(name, {})
        phases[call.when] = call.duration
        if call.when == "teardown":
            del self._phases[name]
            setup, body = phases.get("setup", 0.0), phases.get("call", 0.0)
            self.records.tests[name] = (setup, body, call.duration)
        return (yield)
