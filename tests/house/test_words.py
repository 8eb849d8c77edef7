"""Docs, docstrings and messages use no more of the avoided words than they did."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.words import ROOT, baseline, count, counts, lowered, risen


def test_no_file_has_more_avoided_words_than_its_baseline() -> None:
    lines = risen(counts(), baseline())
    assert not lines, "use the plain words of docs/glossary.md instead:\n" + "\n".join(lines)


def test_strings_and_pages_count_and_code_does_not(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'told = 1\n\n\ndef f() -> str:\n    """Somebody asks."""\n    return f"due {told}"\n'
    )
    (tmp_path / "a.md").write_text("Nobody says so, at rest. Passwords and wordings are fine.\n")
    assert count(tmp_path / "a.py") == 3
    assert count(tmp_path / "a.md") == 3


def test_the_baseline_only_falls() -> None:
    assert risen({"a": 2, "new": 1, "b": 1}, {"a": 1, "b": 2}) == [
        "a: 2 avoided words, 1 allowed",
        "new: 1 avoided words, 0 allowed",
    ]
    assert lowered({"a": 2, "new": 1, "b": 1}, {"a": 1, "b": 2, "gone": 4}) == {"a": 1, "b": 1}


def test_what_runs_a_manager_for_tests_is_a_harness() -> None:
    named = re.compile(r"^class (\w*(?:World|Stage|Stand|Theatre|Ground|Fate))\b", re.MULTILINE)
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in named.findall(path.read_text())
    ]
    assert found == ["tests/manifests/dockerfile.py: Stage"], "Docker's own word is the only one"
