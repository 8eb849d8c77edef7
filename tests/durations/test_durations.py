"""Runs record how long tests and fixtures take, and workers are filled by what is known of that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.durations.records import (
    ROOT,
    UNKNOWN,
    FixtureTimes,
    Kept,
    Records,
    bare,
    kept,
    merged,
    write,
)
from tests.durations.units import units
from tests.support.pytest_runs import run_pytest

HERE = "tests/durations/test_durations.py"


def seconds(test: str) -> float:
    """Return the number in a test's name."""
    return float(test.partition("::")[2].split("@")[0])


def test_the_longest_units_go_first_and_a_file_keeps_its_order() -> None:
    tests = ["a.py::1", "b.py::5", "a.py::2", "c.py::9"]
    assert list(units(tests, seconds).values()) == [
        ["c.py::9"],
        ["b.py::5"],
        ["a.py::1", "a.py::2"],
    ]


def test_a_long_file_is_divided_and_a_group_is_not() -> None:
    tests = ["a.py::8", "a.py::7", "a.py::9", "b.py::9@server", "c.py::9@server"]
    assert list(units(tests, seconds, limit=15).values()) == [
        ["b.py::9@server", "c.py::9@server"],
        ["a.py::8", "a.py::7"],
        ["a.py::9"],
    ]


def test_a_single_test_beyond_the_limit_is_a_unit() -> None:
    assert list(units(["a.py::40", "a.py::1"], seconds, limit=15).values()) == [
        ["a.py::40"],
        ["a.py::1"],
    ]


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("a.py::t@group", "a.py::t"),
        ("a.py::t[x@y]", "a.py::t[x@y]"),
        ("a.py::t[x@y]@group", "a.py::t[x@y]"),
    ],
)
def test_a_group_is_no_part_of_a_test(test: str, name: str) -> None:
    assert bare(test) == name


def test_a_known_test_its_file_or_a_guess_tell_what_to_expect() -> None:
    known = Kept({"a.py": (4, 0.5)}, {"a.py::long": 9.0})
    assert known.expected("a.py::long@group") == 9.0
    assert known.expected("a.py::short") == 0.5
    assert known.expected("b.py::new") == UNKNOWN
    assert known.seconds_of("a.py") == 11.0


def test_a_run_of_a_part_replaces_what_it_ran_and_keeps_the_rest() -> None:
    known = Kept(
        {HERE: (9, 0.1), "gone.py": (1, 1.0)}, {f"{HERE}::was": 5.0, f"{HERE}::other": 7.0}
    )
    records = Records({f"{HERE}::was": (0.1, 0.1, 0.0), f"{HERE}::now": (1.0, 2.04, 0.0)})
    found = merged(known, records)
    assert found.files == {HERE: (9, 0.2)}
    assert found.long == {f"{HERE}::now": 3.0, f"{HERE}::other": 7.0}


def test_the_file_is_sorted_and_read_as_it_was_written(tmp_path: Path) -> None:
    place = tmp_path / "kept.json"
    write(Kept({"b.py": (1, 0.25), "a.py": (2, 0.5)}, {'a.py::"x"[y]': 1.5}), place)
    raw = json.loads(place.read_text())
    assert list(raw["files"]) == ["a.py", "b.py"]
    assert raw["long"] == {'a.py::"x"[y]': 1.5}
    assert place.read_text().count("\n") == 9


def test_the_kept_file_lists_most_files_of_tests() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(files & kept().files.keys()) > len(files) / 2, "make test TESTS=all durations"


@pytest.mark.parametrize("text", ["[]", '{"tests": {"a": 1}, "fixtures": {}}', "{"])
def test_a_file_of_something_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"durations|Expecting"):
        Records.loads(text)


SUITE = """
import time
import pytest

@pytest.fixture
def inner():
    time.sleep(0.05)
    yield
    time.sleep(0.1)

@pytest.fixture
def outer(inner, request):
    request.getfixturevalue("late")

@pytest.fixture
def late():
    time.sleep(0.06)

@pytest.mark.parametrize("n", range(3))
def test_it(outer, n):
    time.sleep(0.02)
"""


@pytest.mark.parametrize(
    "workers", [(), ("-n", "2", "--dist", "loadgroup")], ids=["alone", "workers"]
)
def test_a_run_writes_what_tests_and_fixtures_took(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.durations.plugin"]\n')
    (tmp_path / "test_it.py").write_text(SUITE)
    place = tmp_path / "durations.json"
    code, text = run_pytest(tmp_path, f"--durations-file={place}", *workers)
    assert code == 0, text
    records = Records.loads(place.read_text())
    assert set(records.tests) == {f"test_it.py::test_it[{n}]" for n in range(3)}
    for setup, call, teardown in records.tests.values():
        assert setup >= 0.11
        assert call >= 0.02
        assert teardown >= 0.1
    fixtures = {name.partition(" ")[0]: times for name, times in records.fixtures.items()}
    inner, outer, late = (fixtures[name] for name in ("inner", "outer", "late"))
    assert inner.times == outer.times == late.times == 3
    assert inner.setup >= 0.15
    assert inner.teardown >= 0.3
    assert late.setup >= 0.18
    assert outer.setup < late.setup, "the time of a fixture that it makes is not its own"
    assert ("costliest fixtures" in text) == bool(workers)


def test_the_slowest_and_costliest_come_first() -> None:
    records = Records({"a": (0, 1, 0), "b": (1, 1, 1)}, {"x": FixtureTimes(1, 1.0, 0.0)})
    records.add(Records({}, {"x": FixtureTimes(2, 0.5, 0.5), "y": FixtureTimes(1, 3.0, 0.0)}))
    assert records.slowest_tests(1) == [("b", 3)]
    assert [(name, times.seconds) for name, times in records.costliest_fixtures(2)] == [
        ("y", 3.0),
        ("x", 2.0),
    ]
