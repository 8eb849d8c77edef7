"""`make test` and `make test TESTS=ci` run a part of each heavy proof and report what they left out."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.samples.commit import CHANGED_SINCE, FIFTHS, Commit, commit_of, text_before
from tests.samples.plan import (
    Choice,
    Collected,
    Proof,
    fifth_of,
    proofs,
    report,
    scenarios,
    select,
)
from tests.support.pytest_runs import run_pytest

ROOT = Path(__file__).parents[2]
DEFECTS = Proof(name="defects", tests=("tests/a.py", "tests/b/"), one_in=3)
SERVER = Proof(name="server", tests=("tests/",), one_in=2, on_server=True, each_file=False)
DIFFERENCES = {"apply", "conflict", "ownership", "admission", "watch", "garbage collection"}
DIFFERENCES |= {"rights", "conversion", "crds"}
"""What could differ between the embedded server and a real one."""
SYSTEMS = Proof(name="systems", tests=("tests/s",), one_in=2, on_server=True, ci="chosen")
SAMPLE = Choice()


def in_ci(number: int, *changed: str, chosen: tuple[str, ...] = ()) -> Choice:
    """Return the choice of CI on a commit whose turn is a fifth."""
    return Choice(Commit(f"{number:x}", frozenset(changed), "HEAD~1"), ci=True, chosen=chosen)


def test_of_each_file_of_a_proof_every_nth_test_is_kept_and_all_other_tests() -> None:
    tests = [f"tests/{file}::test[{n}]" for file in ("a.py", "b/b.py", "c.py") for n in range(4)]
    chosen = select(map(Collected, tests), [DEFECTS], SAMPLE)
    assert chosen.kept == {
        *("tests/a.py::test[0]", "tests/a.py::test[3]"),
        *("tests/b/b.py::test[0]", "tests/b/b.py::test[3]"),
        *tests[8:],
    }
    assert (chosen.left_out, chosen.totals) == ({"defects": 4}, {"defects": 8})


def test_a_test_belongs_to_the_first_proof_that_includes_it() -> None:
    tests = [Collected(f"tests/a.py::test[{n}]", on_server=True) for n in range(3)]
    tests += [Collected(f"tests/{file}.py::test", on_server=file != "e") for file in "cde"]
    chosen = select(tests, [DEFECTS, SERVER], SAMPLE)
    assert chosen.totals == {"defects": 3, "server": 2}
    assert chosen.kept >= {"tests/c.py::test", "tests/e.py::test"}
    assert "tests/d.py::test" not in chosen.kept


def test_ci_runs_the_sample_and_every_test_of_a_proof_within_five_commits() -> None:
    tests = [Collected(f"tests/a.py::test[{n}]") for n in range(60)]
    sample = select(tests, [DEFECTS], SAMPLE).kept
    runs = [select(tests, [DEFECTS], in_ci(number)).kept for number in range(FIFTHS)]
    assert all(sample < run < {test.id for test in tests} for run in runs)
    assert set().union(*runs) == {test.id for test in tests}
    twice = Counter(test for run in runs for test in run - sample)
    assert set(twice.values()) == {1}


def test_ci_runs_what_names_a_system_that_changed_where_the_proof_says_so() -> None:
    names = ("cosmos", "fleet")
    tests = [Collected(f"tests/{name}/a.py::test[{n}]") for name in names for n in range(20)]
    proof = Proof(name="kills", tests=("tests/",), one_in=8, of_systems=True)
    changed = in_ci(0, "internal/cosmos/x.py", "internal/fleet.py", "docs/fleet/x.md")
    kept = select(tests, [proof], changed).kept
    assert {test.id for test in tests[:20]} <= kept
    assert len(kept) < 40
    assert len(select(tests, [replace(proof, of_systems=False)], changed).kept) < 20


def test_ci_runs_all_of_a_proof_that_is_to_run_whole_and_of_a_file_that_changed() -> None:
    tests = [Collected(f"tests/{file}.py::test[{n}]") for file in ("a", "b/b") for n in range(20)]
    whole = Proof(name="whole", tests=("tests/",), one_in=5, ci="all")
    assert select(tests, [whole], in_ci(0)).left_out == {}
    changed = select(tests, [DEFECTS], in_ci(0, "tests/a.py"))
    assert {test.id for test in tests[:20]} <= changed.kept
    assert changed.left_out["defects"] > 0
    assert select(tests, [DEFECTS], Choice(Commit("0", frozenset({"tests/a.py"})))).kept == (
        select(tests, [DEFECTS], SAMPLE).kept
    ), "a sample stays small whatever changed"


def test_ci_runs_all_of_a_proof_where_what_it_is_about_changed() -> None:
    tests = [Collected(f"tests/a.py::test[{n}]") for n in range(40)]
    proof = replace(DEFECTS, changed=("ctrlruntime/envtest/",))
    assert select(tests, [proof], in_ci(0, "ctrlruntime/envtest/x.py")).left_out == {}
    for choice in (
        in_ci(0, "docs/envtest/x.py"),
        Choice(in_ci(0, "ctrlruntime/envtest/x.py").commit),
    ):
        assert select(tests, [proof], choice).left_out["defects"] > 20


def test_of_the_systems_on_a_real_server_only_chosen_scenarios_run_before_everything() -> None:
    tests = [
        Collected(f"tests/s{file}.py::test_{n}", on_server=True) for file in "xy" for n in "abc"
    ]
    chosen = ("tests/sx.py::test_b", "tests/sy.py")
    assert select(tests, [SYSTEMS], in_ci(0, chosen=chosen)).kept == {
        *("tests/sx.py::test_b", "tests/sy.py::test_a"),
        *("tests/sy.py::test_b", "tests/sy.py::test_c"),
    }
    sample = select(tests, [SYSTEMS], Choice(chosen=chosen)).kept
    assert sample == {"tests/sx.py::test_b", "tests/sy.py::test_a", "tests/sy.py::test_c"}
    assert len(select(tests, [SYSTEMS], in_ci(0, "tests/sx.py", chosen=chosen)).kept) == 6


def test_ci_runs_more_of_a_proof_than_the_sample_whose_turn_it_may_be() -> None:
    tests = [Collected(f"tests/a.py::test[{n}]") for n in range(40)]
    proof = Proof(name="cases", tests=("tests/",), one_in=20, ci_one_in=4)
    constant = {f"tests/a.py::test[{n}]" for n in range(0, 40, 4)}
    assert len(select(tests, [proof], SAMPLE).kept) == 2
    runs = [select(tests, [proof], in_ci(number)).kept for number in range(FIFTHS)]
    assert set.intersection(*map(set, runs)) == constant
    assert set().union(*runs) == {test.id for test in tests}


def test_a_test_that_is_wanted_runs_in_any_case() -> None:
    tests = [Collected(f"tests/a.py::test[{n}]") for n in range(4)]
    wanted = Choice(wanted=frozenset({"tests/a.py::test[2]"}))
    assert "tests/a.py::test[2]" in select(tests, [DEFECTS], wanted).kept


def test_fifths_are_about_equal_and_the_same_everywhere() -> None:
    counted = Counter(fifth_of(f"tests/a.py::test[{n}]") for n in range(1000))
    assert set(counted) == set(range(FIFTHS))
    assert min(counted.values()) > 150
    assert fifth_of("tests/queue/test_core.py::test_a") == 2


def test_what_is_too_long_for_a_sample_is_left_to_ci() -> None:
    tests = [Collected(f"tests/a.py::test[{n}]") for n in range(4)]
    long = Proof(name="long", tests=("tests/",), one_in=0, ci="all")
    assert select(tests, [long], SAMPLE).left_out == {"long": 4}
    assert select(tests, [long], in_ci(0)).left_out == {}


def test_the_plan_names_what_exists_and_keeps_some_of_each() -> None:
    assert len({proof.name for proof in proofs()}) == len(proofs())
    for proof in proofs():
        assert 1 not in (proof.one_in, proof.ci_one_in)
        assert proof.ci in ("fifth", "all", "chosen")
        assert all(any(ROOT.glob(f"{path}*")) for path in proof.changed), proof.name
        for prefix in proof.tests:
            path, _, name = prefix.partition("::")
            assert (ROOT / path).exists(), prefix
            function = name.partition("[")[0]
            assert not name or f"def {function}(" in (ROOT / path).read_text(), prefix


def test_scenarios_on_a_real_server_name_what_exists_and_why_servers_could_differ() -> None:
    prefixes = [scenario.test for scenario in scenarios()]
    assert len(set(prefixes)) == len(prefixes)
    assert {scenario.why for scenario in scenarios()} == DIFFERENCES
    for prefix in prefixes:
        path, *names = prefix.partition("[")[0].split("::")
        source = (ROOT / path).read_text()
        for name in names:
            word = "class" if name.startswith("Test") else "def"
            assert re.search(rf"\b{word} {name}\b", source), prefix


def test_the_report_shows_how_many_where_and_how_to_run_them() -> None:
    name = proofs()[0].name
    first, *_, turn, last = report({name: 3}, {name: 5}, in_ci(7))
    assert first.startswith(f"3 of 5 tests left out: {name} (tests/")
    assert turn == "fifth 2 of 0 to 4, by commit 7; what changed since HEAD~1"
    assert "make test TESTS=all" in last


class TestCommits:
    """A repository with two commits."""

    @pytest.fixture
    def repository(self, tmp_path: Path) -> Path:
        self.git(tmp_path, "init", "-q")
        for name in ("one", "two"):
            (tmp_path / name).write_text(name)
            self.git(tmp_path, "add", ".")
            self.git(tmp_path, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", name)
        return tmp_path

    def git(self, folder: Path, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)

    def test_what_changed_is_of_the_last_commit_and_of_the_work_tree(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv(CHANGED_SINCE, raising=False)
        assert commit_of(repository).changed == {"two"}
        (repository / "one").write_text("changed")
        (repository / "three").write_text("new")
        found = commit_of(repository)
        assert found.changed == {"one", "two", "three"}
        assert (len(found.id), found.since) == (40, "HEAD~1")
        before = [text_before(repository, found, name) for name in ("one", "two")]
        assert before == ["one", None]

    def test_a_shallow_clone_and_a_folder_without_repository_have_no_changes(
        self, repository: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        clone = tmp_path_factory.mktemp("clones") / "clone"
        self.git(repository, "clone", "-q", "--depth=1", f"file://{repository}", str(clone))
        found = commit_of(clone)
        assert (len(found.id), found.changed, found.since) == (40, frozenset(), "")
        nowhere = commit_of(tmp_path_factory.mktemp("empty"))
        assert (nowhere, nowhere.fifth) == (Commit(), 0)
        assert "shallow clone?" in report({"x": 1}, {"x": 1}, Choice(found, ci=True))[-2]


class TestRuns:
    """Runs of pytest over a suite with tests of a heavy proof and of a requirement."""

    @pytest.fixture
    def suite(self, tmp_path: Path) -> Path:
        (tmp_path / "pytest.ini").write_text(
            "[pytest]\ntestpaths = tests\nmarkers = criterion(id): which\naddopts = --import-mode=importlib\n"
        )
        (tmp_path / "tests" / "rules").mkdir(parents=True)
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.samples.plugin"]\n')
        (tmp_path / "tests" / "rules" / "test_rules.py").write_text(
            "import pytest\n@pytest.mark.parametrize('n', range(30))\ndef test_heavy(n): pass\n"
        )
        (tmp_path / "tests" / "test_light.py").write_text("def test_light(): pass\n")
        return tmp_path

    @pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
    def test_a_sample_lists_what_it_left_out(self, suite: Path, workers: tuple[str, ...]) -> None:
        code, text = run_pytest(suite, "--tests=sample", *workers)
        assert code == 0, text
        proof = next(proof for proof in proofs() if "tests/rules/" in proof.tests)
        kept = -(-30 // proof.one_in)
        assert f"{30 - kept} of 30 tests left out: {proof.name}" in text
        assert f"{kept + 1} passed" in text
        assert "make test TESTS=all" in text

    def test_a_part_judges_the_lines_whose_tests_it_ran(self, suite: Path) -> None:
        (suite / "conftest.py").write_text(
            'pytest_plugins = ["tests.catalogue.plugin", "tests.samples.plugin"]\n'
        )
        rules = suite / "tests" / "rules" / "test_rules.py"
        marked = "def test_heavy(n): pass\n\n@pytest.mark.criterion('WQ-01')\ndef test_line(): pass"
        rules.write_text(rules.read_text().replace("def test_heavy(n): pass", marked))
        code, text = run_pytest(suite, "--tests=sample")
        assert code == 1, text
        assert "182 requirements: 181 missing, 1 not run" in text

    def test_without_the_option_nothing_is_left_out(self, suite: Path) -> None:
        code, text = run_pytest(suite)
        assert code == 0, text
        assert "31 passed" in text
        assert "left out of this run" not in text
