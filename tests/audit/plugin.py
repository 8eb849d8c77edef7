"""For pytest: whether managers under test ask for what they are granted, and for nothing else.

Suites hand the request logs of their proxies to the `ledger`. All workers write the requests, test by test, into
one file of the run. A refusal that no test has declared fails the run. Rights that are not used by the suite that
has to use them are reported whenever that suite was not narrowed; they fail a run in which every test passed and
which left out none (`--tests`).
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol

import pytest
from _pytest.terminal import TerminalReporter

from tests.audit.report import Audit, Share, Verdict, judge
from tests.audit.request_recorder import Line, RequestRecorder, read
from tests.audit.rights import Right
from tests.selection import Tests, is_narrowed, tests_of

AUDIT = pytest.StashKey[Audit]()
"""What is audited, where it is not the manager's systems."""
LEDGER = pytest.StashKey[RequestRecorder]()

_FOLDER = "rights_folder"
_WHOLE = ("", "not matrix")
"""Choices of marks that leave nothing out that would use a right of its own."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rights",
        type=Path,
        metavar="FILE",
        help="where to write what managers under test asked (default: in the run's own folder)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers of xdist write; the controller judges
        config.pluginmanager.register(Judge(config), "rights-judge")


@pytest.fixture(scope="session")
def ledger(request: pytest.FixtureRequest) -> RequestRecorder:
    """Take down what managers under test ask; see `RequestRecorder.watch`."""
    return ledger_of(request.config)


def ledger_of(config: pytest.Config) -> RequestRecorder:
    """This worker's, made at first use."""
    if LEDGER not in config.stash:
        worker: dict[str, Any] = getattr(config, "workerinput", {})
        folder = Path(worker[_FOLDER]) if worker else folder_of(config)
        config.stash[LEDGER] = RequestRecorder(folder / f"{worker.get('workerid', 'main')}.jsonl")
    return config.stash[LEDGER]


def folder_of(config: pytest.Config) -> Path:
    """The run's own folder for what its workers write."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    folder = factory.getbasetemp() / "rights"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    ledger = ledger_of(item.config)
    ledger.turn(item.nodeid)
    result = yield
    ledger.flush()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """What ended after the last test.

    Once pytest has given up the lock of the run's folder, any other run on the machine may remove it.
    """
    if LEDGER in session.config.stash:
        session.config.stash[LEDGER].flush()
    judge_of_run = session.config.pluginmanager.get_plugin("rights-judge")
    if judge_of_run is not None and not session.config.option.collectonly:
        judge_of_run.gather()


class Worker(Protocol):
    """A worker of xdist as its controller knows it."""

    workerinput: dict[str, object]


class Judge:
    """Puts together what all workers wrote, and says what is wrong with it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._verdict = Verdict()
        self._is_part = tests_of(config) is not Tests.ALL
        self._undecided = ""
        """Why the run does not fail for unused rights, if it does not."""
        self._wanted: list[Share] = []
        self._unaudited: frozenset[str] = frozenset()
        self._place = Path()
        self._lines: list[Line] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Worker) -> None:
        """A worker of xdist is told where to write."""
        node.workerinput[_FOLDER] = str(folder_of(self._config))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            return
        exempt = frozenset[Right]()
        if may_be_whole(self._config):
            self._wanted, exempt = self._expected()
        self._verdict = judge(self._lines, self._wanted, exempt)
        green = session.exitstatus == pytest.ExitCode.OK
        self._undecided = undecided(tests_of(self._config), green=green)
        wrong = self._verdict.forbidden or (self._verdict.unused and not self._undecided)
        if green and wrong:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _expected(self) -> tuple[list[Share], frozenset[Right]]:
        """What the suites that ran as a whole have to use."""
        audit = self._config.stash.get(AUDIT, None) or _of_the_manager()
        self._unaudited = audit.unaudited
        whole = {suite for suite, folder in audit.folders.items() if covers(self._config, folder)}
        shares = audit.shares() if whole else ()
        return [share for share in shares if share.suite in whole], audit.exempt

    def gather(self) -> None:
        """Write one file of the run, and read it."""
        folder = folder_of(self._config)
        place: Path = self._config.option.rights or folder / "all.jsonl"
        parts = sorted(part for part in folder.glob("*.jsonl") if part != place)
        place.write_bytes(b"".join(part.read_bytes() for part in parts))
        self._place = place
        self._lines = list(read(place))

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        verdict = self._verdict
        if verdict.acceptable and not self._wanted:
            return
        terminalreporter.section("rights of the manager")
        reason = f" ({self._undecided})" if self._undecided else ""
        for test, asked in sorted(set(verdict.forbidden)):
            terminalreporter.line(f"forbidden: {asked} ({test})", red=True)
        for scene, right in () if self._is_part else verdict.unused:
            terminalreporter.line(f"granted and never used by {scene}: {right}{reason}", red=True)
        for scene, right in verdict.unjudged:
            terminalreporter.line(f"not served, so not judged of {scene}: {right}")
        for system in sorted(self._unaudited):
            terminalreporter.line(f"no suite is audited for the system {system!r}", yellow=True)
        terminalreporter.line(
            f"{', '.join(share.suite for share in self._wanted) or 'no suite'} as a whole: {verdict.used} rights used, "
            f"{len(verdict.unused)} unused{reason}, {len(verdict.forbidden)} refusals; {self._place}"
        )


def undecided(tests: Tests, *, green: bool) -> str:
    """Return why a run does not fail for rights that were not used; "" for one that does."""
    if not green:
        return "tests failed"
    return "" if tests is Tests.ALL else f"the run left out tests: --tests {tests}"


def may_be_whole(config: pytest.Config) -> bool:
    """Whether all that is in some folder was asked for."""
    return (
        not is_narrowed(config)
        and config.getoption("markexpr", "") in _WHOLE
        and bool(_folders(config))
    )


def covers(config: pytest.Config, folder: Path) -> bool:
    """Whether what was asked for includes all of a folder."""
    return folder.is_dir() and any(
        folder.resolve().is_relative_to(asked) for asked in _folders(config)
    )


def _folders(config: pytest.Config) -> list[Path]:
    asked = [(config.invocation_params.dir / arg).resolve() for arg in config.args]
    return [place for place in asked if place.is_dir()]


def _of_the_manager() -> Audit:
    from tests.audit.suites import of_the_manager  # imports the manager, which few runs need

    return of_the_manager()
