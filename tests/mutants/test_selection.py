"""Seeded defects run in any case when their file, their tests or they themselves changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mutants.defects import Defect, defects
from tests.mutants.selection import TEST, concerned, ids_of, known
from tests.support.pytest_runs import run_pytest


def seeded(number: int, *, file: str = "a.py", test: str = "tests/a/test_a.py") -> Defect:
    return Defect(id="XX-01", says=f"n{number}", file=file, old="a = 1", new="a = 2", test=test)


DEFECTS = (
    seeded(1),
    seeded(2, file="b.py"),
    seeded(3, file="b.py", test="tests/b/test_b.py::TestB::test_b[tests/c.py]"),
    seeded(4, file="b.py", test="tests/a"),
)


@pytest.mark.parametrize(
    ("changed", "numbers"),
    [
        (["a.py"], {1}),
        (["tests/a/test_a.py"], {1, 2, 4}),
        (["tests/b/test_b.py"], {3}),
        (["tests/a/deep/test_c.py"], {4}),
        (["tests/c.py", "tests/ab/test_a.py", "tests/test_a.py", "x/a.py"], set()),
        ([], set()),
    ],
)
def test_defects_of_changed_files_and_of_changed_tests_are_concerned(
    changed: list[str], numbers: set[int]
) -> None:
    assert concerned(DEFECTS, changed, DEFECTS) == [
        DEFECTS[number - 1] for number in sorted(numbers)
    ]


def test_a_defect_that_is_new_or_reads_otherwise_is_concerned() -> None:
    entry = '[[defect]]\nid = "XX-01"\nsays = "{}"\nfile = "a.py"\nold = "a = 1"\nnew = "{}"\ntest = "tests/a/test_a.py"\n'
    before = known(entry.format("n1", "a = 2") + entry.format("n5", "a = 3"))
    assert concerned([DEFECTS[0], seeded(5), seeded(6)], [], before) == [seeded(5), seeded(6)]


@pytest.mark.parametrize("text", [None, "", "[[", '[[defect]]\nid = "XX-01"'])
def test_a_file_of_another_format_has_no_defects(text: str | None) -> None:
    assert known(text) == frozenset()


def test_the_tests_of_defects_are_those_with_their_key() -> None:
    tests = [f"{TEST}[XX-01: n{number}]{group}" for number in (1, 2) for group in ("", "@mutants")]
    assert ids_of([seeded(2)], [*tests, "tests/a.py::test[XX-01: n2]"]) == set(tests[2:])
    assert ids_of([], tests) == frozenset()


def test_a_sample_runs_the_defects_of_changed_files(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    file, _, name = TEST.partition("::")
    (suite / "tests" / "mutants").mkdir(parents=True)
    (suite / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (suite / "conftest.py").write_text('pytest_plugins = ["tests.samples.plugin"]\n')
    (suite / file).write_text(
        "import pytest\nfrom tests.mutants.defects import defects\n"
        "@pytest.mark.parametrize('defect', [pytest.param(d, id=d.key) for d in defects()])\n"
        f"def {name}(defect): print('ran', defect.file)\n"
    )
    subprocess.run(["git", "init", "-q"], cwd=suite, check=True)
    author = ("-c", "user.name=n", "-c", "user.email=e")
    subprocess.run(["git", *author, "commit", "-qm", "one", "--allow-empty"], cwd=suite, check=True)
    changed = max({defect.file for defect in defects()})
    (suite / changed).parent.mkdir(parents=True)
    (suite / changed).write_text("")
    code, text = run_pytest(suite, "--tests=sample", "-s")
    assert code == 0, text
    count = sum(defect.file == changed for defect in defects())
    assert text.count(f"ran {changed}") == count
    assert f"of {len(defects())} tests left out: seeded defects" in text
    assert "not left out: seeded defects of files that changed since" in text
