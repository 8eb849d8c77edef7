"""The catalogue and the verdict on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.catalogue import document
from tests.catalogue.marks import unproven
from tests.catalogue.outcomes import Outcome, Record, judge, summary, table
from tests.catalogue.requirements import Book, Requirement, catalogue, families_of
from tests.support.pytest_runs import run_pytest

ROOT = Path(__file__).parents[2]
CORE = Requirement(id="XX-01", family="XX", priority=0, text="It works.")
PARITY = Requirement(id="XX-02", family="XX", priority=1, text="It is like the other.")
LEFT_OUT = Requirement(id="XX-03", family="XX", priority=2, text="It shines.", left_out="No sun.")


def test_there_are_182_lines_99_of_them_core() -> None:
    lines = catalogue().values()
    assert len(lines) == 182
    assert sum(line.core for line in lines) == 99
    assert {line.priority for line in lines} == {0, 1, 2}
    assert len({line.text for line in lines}) == 182
    assert not [line.id for line in lines if line.core and line.left_out]


@pytest.mark.parametrize(
    ("system", "number", "left_out"),
    [
        ("cloud", 46, []),
        ("cosmos", 119, ["COSMOS-A10-205", "COSMOS-A10-350", "COSMOS-A10-409"]),
        ("fleet", 49, ["D5-14", "D5-15"]),
        ("tenancy", 148, ["A3", "A4"]),
    ],
)
def test_every_scenario_of_a_system_is_carried_by_a_test_or_left_out_with_its_reason(
    system: str, number: int, left_out: list[str]
) -> None:
    (file,) = (file for file in Book.SCENARIOS.files if file.stem == system)
    lines = [line for family in families_of(file) for line in family.requirements]
    assert len(lines) == number
    assert [line.id for line in lines if line.left_out] == left_out
    assert not [line.id for line in lines if line.core and line.left_out]
    assert unproven(lines, ROOT / "tests") == []


def test_the_scenarios_are_those_of_all_systems() -> None:
    systems = [file.stem for file in Book.SCENARIOS.files]
    assert systems == ["cloud", "cosmos", "fleet", "tenancy"]
    ids = [
        line.id
        for file in Book.SCENARIOS.files
        for f in families_of(file)
        for line in f.requirements
    ]
    assert list(catalogue(Book.SCENARIOS)) == ids, "no ID is that of two lines"
    assert {"A1", "U5", "SG-20", *(f"FAULT-B{number}" for number in range(1, 41))} <= set(ids)
    assert {f"FLEET-R{number}" for number in range(1, 33)} <= set(ids)
    assert {f"D5-{number}" for number in range(1, 18)} <= set(ids)


def test_an_id_that_no_test_carries_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        'import pytest\n@pytest.mark.criterion("XX-01")\ndef test_it(): pass\n'
    )
    assert unproven([CORE, PARITY, LEFT_OUT], tmp_path) == ["XX-02"]


def test_there_are_as_many_hazards_as_the_readme_counts() -> None:
    lines = catalogue(Book.HAZARDS).values()
    assert f"[{len(lines)} hazards](docs/hazards.md)" in (ROOT / "README.md").read_text()
    assert not [line.id for line in lines if line.left_out]


def test_the_documents_match_the_catalogues() -> None:
    assert document.drift() == ""


def test_what_is_decided_otherwise_has_its_reason() -> None:
    page = (ROOT / "docs" / "decisions" / "requirements.md").read_text()
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("| ")]
    explained = {name.strip() for row in rows for name in row.split(",")}
    assert {line.id for line in catalogue().values() if line.decided} <= explained


@pytest.mark.parametrize(
    ("outcomes", "expected", "acceptable"),
    [
        ([Outcome.PASSED, Outcome.PASSED], Outcome.PASSED, True),
        ([Outcome.PASSED, Outcome.SKIPPED], Outcome.PASSED, True),
        ([Outcome.PASSED, Outcome.FAILED], Outcome.FAILED, False),
        ([Outcome.SKIPPED], Outcome.SKIPPED, False),
        ([], Outcome.MISSING, False),
    ],
)
def test_a_line_is_proven_by_all_its_tests(
    outcomes: list[Outcome], expected: Outcome, acceptable: bool
) -> None:
    record = Record()
    for number, outcome in enumerate(outcomes):
        record.note("XX-01", f"tests/test_x.py::test_{number}", outcome)
    (verdict,) = judge([CORE], record)
    assert (verdict.outcome, verdict.acceptable) == (expected, acceptable)


def test_a_test_that_passed_and_failed_to_clean_up_has_failed() -> None:
    record = Record()
    for outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.PASSED):
        record.note("XX-01", "tests/test_x.py::test", outcome)
    assert judge([CORE], record)[0].outcome is Outcome.FAILED


def test_only_what_gives_a_reason_may_be_left_out_and_never_the_core() -> None:
    assert not judge([PARITY], Record())[0].acceptable
    assert judge([LEFT_OUT], Record())[0].acceptable
    core = Requirement(id="XX-04", family="XX", priority=0, text="No.", left_out="Because.")
    assert not judge([core], Record())[0].acceptable


def test_the_table_names_each_test_once() -> None:
    record = Record()
    for parameter in "ab":
        record.note("XX-01", f"tests/test_x.py::test_x[{parameter}]", Outcome.PASSED)
    record.note("XX-01", "tests/test_x.py::test_y", Outcome.PASSED)
    verdicts = judge([CORE, PARITY, LEFT_OUT], record)
    assert table(verdicts) == [
        "XX-01  P0  passed    tests/test_x.py::test_x (2)",
        "                     tests/test_x.py::test_y",
        "XX-02  P1  missing",
        "XX-03  P2  left out  No sun.",
    ]
    assert summary(verdicts) == (
        "3 requirements: 1 passed, 1 missing, 1 left out; P0: 1 of 1 passed"
    )


class TestRuns:
    """Runs of pytest over a small suite that marks a single line of the catalogue."""

    @pytest.fixture
    def suite(self, tmp_path: Path) -> Path:
        (tmp_path / "pytest.ini").write_text(
            "[pytest]\ntestpaths = suite\nmarkers = criterion(id): which\n"
        )
        (tmp_path / "suite").mkdir()
        (tmp_path / "suite" / "conftest.py").write_text(
            'pytest_plugins = ["tests.catalogue.plugin"]\n'
        )
        (tmp_path / "suite" / "test_it.py").write_text(
            "import pytest\n"
            '@pytest.mark.criterion("WQ-01")\n'
            "def test_marked(): pass\n"
            "def test_unmarked(): pass\n"
        )
        return tmp_path

    def test_a_whole_run_fails_when_lines_are_not_proven(self, suite: Path) -> None:
        code, text = run_pytest(suite, "-n", "1")
        assert code == 1, text
        assert "2 passed" in text
        assert "182 requirements: 1 passed, 181 missing; P0: 1 of 99 passed" in text
        assert "WQ-02  P0  missing" in text
        assert "WQ-01  P0" not in text

    def test_scenarios_without_a_test_fail_a_run_of_the_scenarios(self, suite: Path) -> None:
        tests = suite / "suite" / "test_it.py"
        tests.write_text(tests.read_text().replace("WQ-01", "C1"))
        code, text = run_pytest(suite, "--scenarios")
        assert code == 1, text
        assert "1 passed, 1 deselected" in text
        assert "C1  P1  passed    suite/test_it.py::test_marked" in text
        assert "A1  P1  missing" in text
        assert "A3  P1  left out  pprof is Go tooling" in text
        assert "SG-01  P0  missing" in text
        assert "FAULT-B40  P1  missing" in text

    def test_a_part_of_the_suite_is_not_judged(self, suite: Path) -> None:
        code, text = run_pytest(suite, "suite/test_it.py")
        assert code == 0, text
        assert "requirements" not in text

    def test_one_line_is_run_and_shown_alone(self, suite: Path) -> None:
        code, text = run_pytest(suite, "--requirement=WQ-01")
        assert code == 0, text
        assert "1 passed, 1 deselected" in text
        assert "WQ-01  P0  passed    suite/test_it.py::test_marked" in text

    @pytest.mark.parametrize("name", ["WQ-99", "R10"])
    def test_a_mark_that_is_not_in_the_catalogue_is_refused(self, suite: Path, name: str) -> None:
        tests = suite / "suite" / "test_it.py"
        tests.write_text(tests.read_text().replace("WQ-01", name))
        code, text = run_pytest(suite)
        assert code == 4, text
        assert f"{name} is not in the requirement catalogue" in text
