"""What `make bench-runtime` accepts, and what it compares with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import base_code as base
from benchmarks.runtime.__main__ import ADAPTER, BASE, OURS, RunFigures, order, summary
from benchmarks.runtime.bounds import exceeded

pytestmark = pytest.mark.criterion("PF-2")

GOOD = {"n": 10, "writes": 20, "conflicts": 0, "restart_writes": 0, "rss_mib": 80.0}


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("writes", 21),
        ("conflicts", 1),
        ("restart_writes", 1),
        ("rss_mib", 80.1),
        ("cpu_ratio_to_base", 0.61),
        ("adapter_writes_to_peer", 0.671),
        ("adapter_cpu_seconds_to_peer", 0.601),
        ("import_cpu_seconds", 0.41),
        ("first_reconcile_cpu_seconds", 1.01),
    ],
)
def test_each_figure_over_its_bound_is_named(figure: str, value: float) -> None:
    assert exceeded(GOOD) == exceeded(GOOD | {"cpu_ratio_to_base": 0.6}) == []
    (found,) = exceeded(GOOD | {figure: value})
    assert found.startswith(f"{figure} is {value}, ")


def test_base_and_own_code_run_in_turns_and_the_peer_at_the_end() -> None:
    assert order("", base=False, turns=1) == [OURS]
    assert order("kopf", base=True, turns=2) == [BASE, OURS, OURS, BASE, ADAPTER, "kopf"]


def test_of_several_turns_the_least_time_and_the_most_of_all_else_count() -> None:
    quiet = RunFigures(10, seconds=1.0, cpu_seconds=2.0, writes=20, rss_mib=70.0)
    busy = RunFigures(10, seconds=3.0, cpu_seconds=4.0, writes=21, conflicts=1, rss_mib=60.0)
    expected = RunFigures(10, seconds=1.0, cpu_seconds=2.0, writes=21, conflicts=1, rss_mib=70.0)
    assert summary([quiet, busy]) == summary([busy, quiet]) == expected


def test_the_tree_of_a_commit_is_exported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTRLRUNTIME_ENVTEST_ASSETS", str(tmp_path / "cache" / "envtest"))
    repository = tmp_path / "repository"
    git(tmp_path, "init", "-q", str(repository))
    (repository / "code.py").write_text("old\n")
    git(repository, "add", ".")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "one")
    (repository / "code.py").write_text("new\n")
    folder = base.exported("HEAD", repository)
    assert (folder / "code.py").read_text() == "old\n"
    assert base.exported("HEAD", repository) == folder
    assert base.environment(folder)["PYTHONPATH"] == str(folder)
    with pytest.raises(SystemExit, match="no commit 0123abc to compare with: fetch"):
        base.exported("0123abc", repository)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)


@pytest.mark.criterion("PF-2")
def test_bytecode_is_there_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "a.py").write_text("A = 1\n")
    base.compile_code(tmp_path)
    assert list((tmp_path / "benchmarks" / "__pycache__").glob("a.*.pyc"))
