"""For pytest: run only the tests that must fail with a defect, and write which of them failed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.mutants.defects import is_named

CHOICE = "DEFECT_TESTS"
"""Environment variable, as JSON: `mark` and `test` (see Defect), `first`, the test that runs before all
others, and `answer`, the file to write."""


def pytest_configure(config: pytest.Config) -> None:
    # The first example that fails will do: to make it smaller takes long and shows nothing more.
    settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], database=None)
    settings.load_profile("mutants")
    config.pluginmanager.register(MarkedTests(json.loads(os.environ[CHOICE])), "marked-tests")


class MarkedTests:
    """Keeps the tests of a defect and writes those that failed, in order."""

    def __init__(self, choice: dict[str, str]) -> None:
        self._mark, self._test, self._first = choice["mark"], choice["test"], choice["first"]
        self._answer = Path(choice["answer"])
        self._failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if self._includes(item)]
        items[:] = sorted(kept, key=lambda item: item.nodeid != self._first)

    def _includes(self, item: pytest.Item) -> bool:
        marks = {name for mark in item.iter_markers("criterion") for name in mark.args}
        return self._mark in marks and is_named(item.nodeid, self._test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._answer.write_text(json.dumps(self._failed))
