"""What a run of pytest was asked to leave out. Plugins that judge a whole suite do not judge a part of it."""

from __future__ import annotations

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
    "sample",
    *(str(book) for book in Book),
)
"""Options, by destination, that run less than what is in the paths. Marks are for the caller to judge."""


def is_narrowed(config: pytest.Config, *, but: tuple[str, ...] = ()) -> bool:
    """Return whether an option leaves out tests of the paths given. `but`: options that do not count."""
    return any(config.getoption(name, None) for name in NARROWING if name not in but)


def is_sample(config: pytest.Config) -> bool:
    """Return whether the run takes a sample of the heavy proofs."""
    return bool(config.getoption("--sample", False))
