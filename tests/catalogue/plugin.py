"""For pytest: which tests prove which line of the catalogue, and whether all lines are proven.

A run of the whole suite reports the lines that are not proven, whatever became of its tests, and fails for them
where no test failed; no test runs twice for it. Lines whose tests `--tests` leaves out do not count. With
`--requirements` (or `--scenarios`) only the tests of that catalogue run, and the table of all its
lines is printed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

import pytest
from _pytest.terminal import TerminalReporter

from tests.catalogue.outcomes import Outcome, Record, Verdict, judge, summary, table
from tests.catalogue.requirements import Book, catalogue, every_line, families
from tests.real_servers import lacks_server
from tests.selection import is_narrowed

_PROPERTY = "requirement"
_NOT_RUN = "requirements_not_run"


def pytest_addoption(parser: pytest.Parser) -> None:
    for book in Book:
        parser.addoption(
            f"--{book}",
            action="store_true",
            help=f"run only tests of the catalogue of {book} and print what they say about each line",
        )
    parser.addoption(
        "--requirement",
        action="append",
        default=[],
        metavar="ID",
        help="the same for one line or family (WQ-01, WQ); may be given several times",
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker of xdist sends its reports to the controller
        config.pluginmanager.register(Judge(config), "requirements-judge")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Mark tests with their lines, keep those of the chosen lines, and record the lines that others leave out."""
    names = {item: requirements_of(item) for item in items}
    for item, lines in names.items():
        item.user_properties += [(_PROPERTY, name) for name in lines]
    yield
    _keep(config, items, names)
    kept = {name for item in items for name in names.get(item, ())}
    not_run = sorted({name for lines in names.values() for name in lines} - kept)
    if hasattr(config, "workeroutput"):
        config.workeroutput[_NOT_RUN] = not_run
    else:
        _judge(config).left_out(not_run)


def _keep(
    config: pytest.Config, items: list[pytest.Item], names: Mapping[pytest.Item, list[str]]
) -> None:
    chosen = chosen_lines(config)
    if chosen is None:
        return
    kept = [item for item in items if chosen.intersection(names.get(item, ()))]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


def _judge(config: pytest.Config) -> Judge:
    judge = config.pluginmanager.get_plugin("requirements-judge")
    assert isinstance(judge, Judge)
    return judge


def requirements_of(item: pytest.Item) -> list[str]:
    """The IDs of the catalogues that a test is marked with. Raises UsageError for one that is none."""
    marked = [str(name) for mark in item.iter_markers("criterion") for name in mark.args]
    known = [family for book in Book for family in families(book)]
    for name in marked:
        if name not in every_line() and any(family.claims(name) for family in known):
            raise pytest.UsageError(f"{item.nodeid}: {name} is not in the requirement catalogue")
    return [name for name in marked if name in every_line()]


def is_wanted(name: str, wanted: list[str]) -> bool:
    """Whether an ID is named, or its family is."""
    return name in wanted or every_line()[name].family in wanted


def chosen_lines(config: pytest.Config) -> set[str] | None:
    """The IDs that the run is about; None if it is about no catalogue in particular."""
    wanted: list[str] = config.getoption("--requirement")
    books = [book for book in Book if config.getoption(f"--{book}")]
    if not wanted and not books:
        return None
    lines = {name for book in books for name in catalogue(book)}
    if wanted:
        named = {name for name in every_line() if is_wanted(name, wanted)}
        return named & lines if books else named
    return lines


class Judge:
    """Collects outcomes, from all workers, and gives the verdict of a whole run."""

    def __init__(self, config: pytest.Config) -> None:
        self._chosen = chosen_lines(config)
        self._whole = _is_whole(config)
        self._record = Record()

    def left_out(self, lines: Iterable[str]) -> None:
        """Record the lines whose tests are all left out."""
        self._record.not_run = set(lines)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self.left_out(getattr(node, "workeroutput", {}).get(_NOT_RUN, self._record.not_run))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            outcome = Outcome.FAILED
        elif lacks_server(report):
            outcome = Outcome.NOT_RUN
        elif report.skipped:
            outcome = Outcome.SKIPPED
        elif report.when == "call":
            outcome = Outcome.PASSED
        else:
            return
        for name, value in report.user_properties:
            if name == _PROPERTY:
                self._record.note(str(value), report.nodeid, outcome)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._whole and session.exitstatus == pytest.ExitCode.OK and self._unproven():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        alone = self._chosen is not None
        for book in Book:
            verdicts = self._verdicts(book)
            if not verdicts or not (self._whole or alone):
                continue
            unproven = [verdict for verdict in verdicts if not verdict.acceptable]
            terminalreporter.section(str(book))
            for line in table(verdicts if alone else unproven):
                terminalreporter.write_line(line)
            if alone and self._whole and unproven:
                terminalreporter.section(f"{book} not proven")
                for line in table(unproven):
                    terminalreporter.write_line(line)
            terminalreporter.write_line(summary(verdicts, book))

    def _verdicts(self, book: Book) -> list[Verdict]:
        """Of all lines of the book that the run is about."""
        lines = catalogue(book)
        if self._chosen is None:
            return judge(lines.values(), self._record) if self._whole else []
        about = [line for name, line in lines.items() if name in self._chosen]
        return judge(about, self._record)

    def _unproven(self) -> list[Verdict]:
        return [
            verdict for book in Book for verdict in self._verdicts(book) if not verdict.acceptable
        ]


def _is_whole(config: pytest.Config) -> bool:
    """Return whether nothing was chosen: neither paths nor names nor marks, nor a sample.

    `make requirements` and its like choose all tests of a book, whose lines are judged.
    """
    return (
        config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and not config.getoption("markexpr", None)
        and not is_narrowed(config, but=tuple(Book))
    )
