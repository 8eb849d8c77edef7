"""Which seeded defects run in any case after a change: those of changed files, and new ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from tests.mutants.defects import SOURCE, Defect, defects, parse
from tests.samples.commit import Commit, text_before

TEST = "tests/mutants/test_seeded_defects.py::test_a_defect_is_caught"
_ENTRIES = f"tests/mutants/{SOURCE.name}"


def changed_defects(root: Path, commit: Commit) -> list[Defect]:
    """Return the defects that a change of the checkout at `root` concerns."""
    if _ENTRIES not in commit.changed:
        return concerned(defects(), commit.changed, defects())
    return concerned(defects(), commit.changed, known(text_before(root, commit, _ENTRIES)))


def concerned(
    seeded: Iterable[Defect], changed: Iterable[str], before: Collection[Defect]
) -> list[Defect]:
    """Return the defects whose file or whose tests are among the `changed`, and those that were not there before."""
    paths = frozenset(changed)
    folders = {str(folder) for path in paths for folder in Path(path).parents}
    return [
        defect
        for defect in seeded
        if defect.file in paths
        or defect.test.partition("::")[0] in paths | folders
        or defect not in before
    ]


def known(text: str | None) -> frozenset[Defect]:
    """Return the defects of an older file; none if there was no such file, or one of another format."""
    try:
        return frozenset(parse(text or ""))
    except (KeyError, TypeError, ValueError):
        return frozenset()


def ids_of(wanted: Iterable[Defect], tests: Iterable[str]) -> frozenset[str]:
    """Return the IDs of those tests that put one of the defects into the code."""
    prefixes = tuple(f"{TEST}[{defect.key}]" for defect in wanted)
    return frozenset(test for test in tests if test.startswith(prefixes))
