"""What a run of pytest was asked to leave out. Plugins that judge a whole suite do not judge a part of it."""

from __future__ import annotations

from enum import StrEnum

import pytest

from tests.catalogue.requirements import Book

NARROWING = (
    "keyword",
    "lf",
    "collectonly",
    "deselect",
    "ignore",
    "ignore_glob",
    "requirement",
    *(str(book) for book in Book),
)
"""Options, by destination, that run less than what is in the paths. Marks are for the caller to judge."""


class Tests(StrEnum):
    """Which tests `make test TESTS=...` runs; see tests/samples/plan.toml."""

    SAMPLE = "sample"
    """Of the heavy proofs a sample."""
    CI = "ci"
    """The sample, what changed, and a rotating fifth of the heavy proofs."""
    ALL = "all"


def tests_of(config: pytest.Config) -> Tests:
    """Return which tests the run is about; all of them where pytest is called without the option."""
    return Tests(config.getoption("--tests", Tests.ALL))


def is_narrowed(config: pytest.Config, *, but: tuple[str, ...] = ()) -> bool:
    """Return whether an option leaves out tests of the paths given. `but`: options that do not count.

    `--tests` is none of these options: what it leaves out is known, test by test.
    """
    return any(config.getoption(name, None) for name in NARROWING if name not in but)


def is_sample(config: pytest.Config) -> bool:
    """Return whether the run takes a sample of the heavy proofs."""
    return tests_of(config) is Tests.SAMPLE
