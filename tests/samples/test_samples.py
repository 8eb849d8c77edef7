"""`make test` runs a sample of each heavy proof and says what it left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.samples.plan import Collected, Proof, proofs, report, sample
from tests.support.pytest_runs import run_pytest

ROOT = Path(__file__).parents[2]
DEFECTS = Proof(name="defects", tests=("tests/a.py", "tests/b/"), one_in=3)
SERVER = Proof(name="server", tests=("tests/",), one_in=2, on_server=True, each_file=False)


def test_of_each_file_of_a_proof_every_nth_test_is_kept_and_all_other_tests() -> None:
    tests = [f"tests/{file}::test[{n}]" for file in ("a.py", "b/b.py", "c.py") for n in range(4)]
    chosen = sample(map(Collected, tests), [DEFECTS])
    assert chosen.kept == {
        *("tests/a.py::test[0]", "tests/a.py::test[3]"),
        *("tests/b/b.py::test[0]", "tests/b/b.py::test[3]"),
        *tests[8:],
    }
    assert (chosen.left_out, chosen.totals) == ({"defects": 4}, {"defects": 8})


def test_a_test_belongs_to_the_first_proof_that_includes_it() -> None:
    tests = [Collected(f"tests/a.py::test[{n}]", on_server=True) for n in range(3)]
    tests += [Collected(f"tests/{file}.py::test", on_server=file != "e") for file in "cde"]
    chosen = sample(tests, [DEFECTS, SERVER])
    assert chosen.totals == {"defects": 3, "server": 2}
    assert chosen.kept >= {"tests/c.py::test", "tests/e.py::test"}
    assert "tests/d.py::test" not in chosen.kept


def test_the_plan_names_what_exists_and_keeps_some_of_each() -> None:
    assert len({proof.name for proof in proofs()}) == len(proofs())
    for proof in proofs():
        assert proof.one_in >= 2
        for prefix in proof.tests:
            path, _, name = prefix.partition("::")
            assert (ROOT / path).exists(), prefix
            assert not name or f"def {name}(" in (ROOT / path).read_text(), prefix


def test_the_report_says_how_many_where_and_how_to_run_them() -> None:
    name = proofs()[0].name
    first, *_, last = report({name: 3}, {name: 5})
    assert first.startswith(f"3 of 5 tests left out: {name} (tests/")
    assert "make test TESTS=all" in last


class TestRuns:
    """Runs of pytest over a suite with tests of a heavy proof, of a requirement and of a missing server."""

    @pytest.fixture
    def suite(self, tmp_path: Path) -> Path:
        (tmp_path / "pytest.ini").write_text(
            "[pytest]\ntestpaths = tests\nmarkers = criterion(id): which\naddopts = --import-mode=importlib\n"
        )
        (tmp_path / "tests" / "mutants").mkdir(parents=True)
        (tmp_path / "conftest.py").write_text(
            'pytest_plugins = ["tests.catalogue.plugin", "tests.samples.plugin"]\n'
        )
        (tmp_path / "tests" / "mutants" / "test_hunt.py").write_text(
            "import pytest\n@pytest.mark.parametrize('n', range(30))\ndef test_heavy(n): pass\n"
        )
        (tmp_path / "tests" / "test_light.py").write_text(
            "import pytest\n"
            "from ctrlruntime.envtest.assets import AssetsMissing\n"
            "@pytest.mark.criterion('WQ-01')\n"
            "def test_light(): pass\n"
            "@pytest.fixture\n"
            "def server(): raise AssetsMissing('none')\n"
            "def test_real(server): pass\n"
        )
        return tmp_path

    @pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
    def test_a_sample_says_what_it_left_out_and_judges_no_catalogue(
        self, suite: Path, workers: tuple[str, ...]
    ) -> None:
        code, text = run_pytest(suite, "--sample", *workers)
        assert code == 0, text
        kept = 30 // next(proof.one_in for proof in proofs() if proof.name == "mutants") + 1
        assert f"{30 - kept} of 30 tests left out: mutants" in text
        assert f"{kept + 1} passed, 1 skipped" in text
        assert "make test TESTS=all" in text
        assert "requirements" not in text

    def test_without_a_sample_nothing_is_left_out_or_skipped(self, suite: Path) -> None:
        code, text = run_pytest(suite)
        assert code == 1, text
        assert "31 passed, 1 error" in text
        assert "left out of this sample" not in text
