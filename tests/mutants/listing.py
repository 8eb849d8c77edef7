"""For pytest: writes down which tests there are and what they are marked with, as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

TARGET = "MUTANTS_LISTING"
"""Environment variable: the file to write."""


def pytest_collection_finish(session: pytest.Session) -> None:
    marks = {
        item.nodeid: [str(name) for m in item.iter_markers("criterion") for name in m.args]
        for item in session.items
    }
    Path(os.environ[TARGET]).write_text(json.dumps(marks))
