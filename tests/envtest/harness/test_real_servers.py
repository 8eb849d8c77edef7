"""Tests on a real API server: skipped and counted where there is none, on a chosen release where there are several."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctrlruntime.envtest.assets import CONTROL_PLANE
from tests.support.pytest_runs import run_pytest

CONFTEST = """
import os
os.environ["CTRLRUNTIME_ENVTEST_ASSETS"] = {cache!r}
pytest_plugins = ["tests.real_servers", "tests.catalogue.plugin"]
"""
WITHOUT = """
import pytest
from ctrlruntime.envtest.assets import AssetsMissing

@pytest.fixture(scope="session")
def server(): raise AssetsMissing("no etcd")

@pytest.mark.criterion("WQ-01")
def test_needs_it(server): pass

def test_needs_it_too(server): pass

def test_starts_its_own():
    raise ExceptionGroup("of a task group", [AssetsMissing("no etcd")])

def test_fails_besides():
    raise ExceptionGroup("of a task group", [AssetsMissing("no etcd"), ValueError("wrong")])

def test_light(): pass
"""
RELEASES = """
import os
from tests.real_servers import other_releases

def test_releases(request):
    print(os.environ.get("KUBEBUILDER_ASSETS"), other_releases(request.config))
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of tests whose cache of API servers is empty."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\nmarkers = criterion(id): which\naddopts = --import-mode=importlib\n"
    )
    (tmp_path / "conftest.py").write_text(CONFTEST.format(cache=str(tmp_path / "cache")))
    (tmp_path / "tests").mkdir()
    return tmp_path


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_without_a_server_tests_are_skipped_and_the_end_reports_how_many_and_what_to_do(
    suite: Path, workers: tuple[str, ...]
) -> None:
    (suite / "tests" / "test_it.py").write_text(WITHOUT)
    code, text = run_pytest(suite, *workers, "tests")
    assert code == 1, text
    assert "1 failed, 1 passed, 3 skipped" in text
    assert "3 tests were skipped: the real API server that they need is not on this machine" in text
    assert "`make envtest-assets`" in text
    assert f"{suite}/cache/vX.Y.Z" in text
    assert "FAILED tests/test_it.py::test_fails_besides" in text


def test_a_line_of_a_catalogue_whose_tests_need_a_server_is_not_run(suite: Path) -> None:
    (suite / "tests" / "test_it.py").write_text(WITHOUT)
    code, text = run_pytest(suite, "--requirement=WQ-01")
    assert code == 0, text
    assert "1 requirements: 1 not run" in text


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ((), "None []"),
        (("--release", "v1.34.2"), "{cache}/v1.34.2 []"),
        (("--release", "all"), "None ['v1.34.2', 'v1.27.16']"),
    ],
    ids=["newest", "chosen", "all"],
)
def test_one_release_of_the_cache_or_all_of_them_can_be_chosen(
    suite: Path, option: tuple[str, ...], shown: str
) -> None:
    cache = suite / "cache"
    for release in ("v1.27.16", "v1.34.2", "v1.36.2", "v1.26.9"):
        (cache / release).mkdir(parents=True)
        for name in CONTROL_PLANE:
            (cache / release / name).touch(mode=0o755)
    (suite / "tests" / "test_it.py").write_text(RELEASES)
    code, text = run_pytest(suite, "-s", *option, "tests")
    assert code == 0, text
    assert shown.format(cache=cache) in text
    code, text = run_pytest(suite, "--release", "v1.26.9")
    assert code != 0
    assert "--release v1.26.9: the cache has v1.36.2, v1.34.2, v1.27.16" in text
