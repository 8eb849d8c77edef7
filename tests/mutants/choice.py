"""For pytest: of what was collected only the tests that have to notice a defect, and who did notice it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.mutants.defects import is_chosen

CHOICE = "MUTANTS_CHOICE"
"""Environment variable, as JSON: `mark`, `test` (see Defect) and `answer`, the file to write."""


def pytest_configure(config: pytest.Config) -> None:
    # The first example that fails will do: to make it smaller takes long and shows nothing more.
    settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], database=None)
    settings.load_profile("mutants")
    config.pluginmanager.register(Chooser(json.loads(os.environ[CHOICE])), "mutants-chooser")


class Chooser:
    """Writes the tests that failed, in order."""

    def __init__(self, choice: dict[str, Any]) -> None:
        self._mark: str = choice["mark"]
        self._test: str = choice["test"]
        self._answer = Path(choice["answer"])
        self._failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._wants(item)]

    def _wants(self, item: pytest.Item) -> bool:
        marks = {name for mark in item.iter_markers("criterion") for name in mark.args}
        return self._mark in marks and is_chosen(item.nodeid, self._test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._answer.write_text(json.dumps(self._failed))
