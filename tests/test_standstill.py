"""A failure while the machine stands still is no verdict."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.pytest_runs import run_pytest

SUITE = """
import ctypes
import pytest
from tests.support import standstill

standstill.STILL = 0.4
runs = {}


def all_stands_still(name):
    runs[name] = runs.get(name, 0) + 1
    ctypes.PyDLL(None).usleep(600_000)  # with Python's lock held


@pytest.fixture(scope="session")
def server():
    all_stands_still("server")
    assert runs["server"] == 2, "no server"


def test_a_lease_is_lost_once():
    all_stands_still("once")
    assert runs["once"] == 2, "lease lost"


def test_of_a_server_that_starts_late(server):
    pass


def test_it_fails_every_time():
    all_stands_still("always")
    assert False


def test_it_fails_by_itself():
    assert False
"""


def test_a_test_that_fails_while_the_machine_stands_still_runs_again(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    code, output = run_pytest(tmp_path, "-p", "tests.support.standstill")
    assert (code, "2 failed, 2 passed" in output) == (1, True), output
    _, _, named = output.partition("ran again, as the machine stood still")
    errors = {"a_lease_is_lost_once": "lease lost", "of_a_server_that_starts_late": "no server"}
    for test, error in errors.items():
        assert re.search(rf"::test_{test}: \d\.\d s: AssertionError: {error}\n", named), named
    for test in ("every_time", "by_itself"):
        assert f"FAILED test_suite.py::test_it_fails_{test}" in output
