"""For pytest: `@simulated`, and the options of a run.

In the `conftest.py` at the root of a test suite, for the options:

    pytest_plugins = ["ctrlruntime.envtest.simulation.plugin"]

`--simulation-seed=17`     replay one seed in the test's own process, where a debugger can stop
`--simulation-seeds=1000`  another number of seeds
`--simulation-first=5000`  another first seed
`--simulation-minutes=10`  new seeds for so long
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from ctrlruntime.envtest.simulation.run import Story
    from ctrlruntime.envtest.simulation.tape import Case


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of simulated tests."""
    group = parser.getgroup("simulation", "simulated tests of controllers")
    group.addoption("--simulation-seed", help="replay this one, as a red run printed it")
    group.addoption("--simulation-seeds", type=int, help="how many seeds each test runs")
    group.addoption(
        "--simulation-first", type=int, default=0, help="the first of them (default: 0)"
    )
    group.addoption("--simulation-minutes", type=float, help="new seeds for so many minutes")
    group.addoption("--simulation-workers", type=int, default=1, help="runs at a time (default: 1)")


def simulated(
    *, seeds: int = 100, always: Sequence[str] = ()
) -> Callable[[Story], Callable[..., None]]:
    """Make a test of a story: an async function that takes a `Simulation`, and other fixtures after it.

    It is run for the seeds 0 to `seeds` - 1 and for those in `always`, which were red once and are
    kept as they were printed. The first one that breaks a rule is shrunk, and fails the test.
    """

    def decorate(story: Story) -> Callable[..., None]:
        @functools.wraps(story)
        def test(pytestconfig: pytest.Config, **fixtures: object) -> None:
            _run(pytestconfig, functools.partial(story, **fixtures), seeds, always)

        signature = inspect.signature(story)
        first = inspect.Parameter("pytestconfig", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        others = list(signature.parameters.values())[1:]
        test.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]
        test.story = story  # type: ignore[attr-defined]
        return test

    return decorate


def _run(config: pytest.Config, story: Story, seeds: int, always: Sequence[str]) -> None:
    import pytest

    from ctrlruntime.envtest.simulation.campaign import description, explore, replay
    from ctrlruntime.envtest.simulation.tape import Case

    if given := config.getoption("--simulation-seed", default=None):
        outcome = replay(story, Case.parse(given))
        red = [outcome] if outcome.rule else []
    else:
        minutes = config.getoption("--simulation-minutes", default=None)
        report = explore(
            story,
            _cases(config, seeds, always, minutes is not None),
            workers=config.getoption("--simulation-workers", default=1),
            minutes=minutes,
        )
        red = report.red
    if red:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        again = f"replay it: pytest '{test}' --simulation-seed={red[0].case}"
        pytest.fail(f"{description(red[0])}\n\n{again}", pytrace=False)


def _cases(
    config: pytest.Config, seeds: int, always: Sequence[str], endless: bool
) -> Iterable[Case]:
    from ctrlruntime.envtest.simulation.tape import Case

    first = config.getoption("--simulation-first", default=0)
    count = config.getoption("--simulation-seeds", default=None) or seeds
    numbers = itertools.count(first) if endless else range(first, first + count)
    return itertools.chain(map(Case.parse, always), map(Case, numbers))
