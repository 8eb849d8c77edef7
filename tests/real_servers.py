"""For pytest: which real API servers tests run on, and what happens where there is none.

A test that needs a server which is neither on this machine nor within reach of it is skipped, in every kind of run.
The last lines say how many tests that were, and how to get a server.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator
from typing import Final, NoReturn

import pytest
from _pytest.terminal import TerminalReporter

from ctrlruntime.envtest.archive import ArchiveError
from ctrlruntime.envtest.assets import (
    CONTROL_PLANE,
    OLDEST_SUPPORTED,
    Assets,
    AssetsMissing,
    cache_folder,
    control_planes,
)

KUBE_APISERVER: Final = "kube-apiserver"
APIEXTENSIONS: Final = "apiextensions"
ALL: Final = "all"
NO_SERVER: Final = "the real API server that they need is not on this machine"
HOW: Final = (
    f"`make envtest-assets` downloads the newest official build. Any release from {{}}.{{}} on will do: "
    f"{', '.join(CONTROL_PLANE)} in {{}}/vX.Y.Z"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--release",
        metavar="vX.Y.Z",
        help="the release of real API servers, of those in the cache (default: the newest that is supported); "
        "all: tests/conformance runs on each of them",
    )


def pytest_configure(config: pytest.Config) -> None:
    chosen: str | None = config.getoption("--release")
    if chosen in (None, ALL):
        return
    found = {folder.name: folder for folder in control_planes()}
    if chosen not in found:
        raise pytest.UsageError(f"--release {chosen}: the cache has {', '.join(found) or 'none'}")
    os.environ["KUBEBUILDER_ASSETS"] = str(found[chosen])


def other_releases(config: pytest.Config) -> list[str]:
    """Return the releases that `--release all` adds to the newest one."""
    if config.getoption("--release") != ALL:
        return []
    return [folder.name for folder in control_planes()[1:]]


def is_there() -> bool:
    """Return whether this machine has the programs of a real API server."""
    try:
        Assets(download=_no_download).find(CONTROL_PLANE)
    except AssetsMissing:
        return False
    return True


def _no_download(release: str | None, names: Collection[str]) -> NoReturn:
    raise ArchiveError(f"{', '.join(names)} of {release or 'any release'}: not downloaded")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a test as skipped whose server is missing."""
    report = yield
    if call.excinfo is not None and _is_missing(call.excinfo.value):
        report.outcome = "skipped"
        path, line, _ = item.location
        report.longrepr = (path, line or 0, f"Skipped: {NO_SERVER}")
    return report


def _is_missing(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_missing, error.exceptions))
    return isinstance(error, AssetsMissing)


def lacks_server(report: pytest.TestReport) -> bool:
    """Return whether a test was skipped because its server is missing."""
    return report.skipped and NO_SERVER in str(report.longrepr)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    skipped = sum(map(lacks_server, terminalreporter.stats.get("skipped", ())))
    if skipped:
        terminalreporter.section("no real API server")
        terminalreporter.write_line(
            f"{skipped} tests were skipped: {NO_SERVER}. {HOW.format(*OLDEST_SUPPORTED, cache_folder())}"
        )
