"""For pytest: `--sample` runs a sample of the heavy proofs, and the end of the run lists what it left out.

Without the option every test runs that was asked for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Mapping

import pytest
from _pytest.terminal import TerminalReporter

from tests.samples.plan import Collected, proofs, report, sample
from tests.selection import is_sample
from tests.xdist_groups import needs_real_server

_LEFT_OUT, _TOTALS = "sample_left_out", "sample_totals"
LISTING = pytest.StashKey["Listing"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        action="store_true",
        help="run a sample of the heavy proofs (tests/samples/plan.toml); the end lists what was left out",
    )


def pytest_configure(config: pytest.Config) -> None:
    if is_sample(config):
        config.stash[LISTING] = listing = Listing(config)
        config.pluginmanager.register(listing, "sample-listing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not is_sample(config):
        return
    chosen = sample([Collected(item.nodeid, needs_real_server(item)) for item in items], proofs())
    others = [item for item in items if item.nodeid not in chosen.kept]
    config.stash[LISTING].collected(chosen.left_out, chosen.totals)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.nodeid in chosen.kept]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In a sample, skip what needs a real API server where that would have to be built first."""
    report = yield
    if is_sample(item.config) and call.excinfo is not None and _is_missing(call.excinfo.value):
        report.outcome = "skipped"
        path, line, _ = item.location
        why = "no kube-apiserver on this machine: hack/envtest-assets.sh all provides one"
        report.longrepr = (path, line or 0, f"Skipped: {why}")
    return report


def _is_missing(error: BaseException) -> bool:
    from ctrlruntime.envtest.assets import AssetsMissing

    return isinstance(error, AssetsMissing)


class Listing:
    """Prints what was left out. Every worker of xdist collects the same; one of them reports it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left_out: Counter[str] = Counter()
        self._totals: Counter[str] = Counter()

    def collected(self, left_out: Mapping[str, int], totals: Mapping[str, int]) -> None:
        """Record the numbers of this process."""
        self._left_out, self._totals = Counter(left_out), Counter(totals)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_LEFT_OUT] = json.dumps(self._left_out)
            self._config.workeroutput[_TOTALS] = json.dumps(self._totals)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        output = getattr(node, "workeroutput", {})
        if _LEFT_OUT in output:
            self.collected(json.loads(output[_LEFT_OUT]), json.loads(output[_TOTALS]))

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not self._left_out:
            return
        terminalreporter.section("left out of this sample")
        for line in report(self._left_out, self._totals):
            terminalreporter.write_line(line)
