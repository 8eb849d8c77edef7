"""What the documents say of others and of what is published has one source, with its date."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPARISON = (ROOT / "docs" / "comparison.md").read_text()
OTHERS = tomllib.loads((ROOT / "docs" / "others.toml").read_text())


@pytest.mark.criterion("U-9")
def test_the_comparison_has_the_versions_and_the_date_of_its_data() -> None:
    assert f"As of {OTHERS['as_of']}." in COMPARISON
    heads = re.findall(r"^\| \|(.+)\|$", COMPARISON, re.MULTILINE)
    named = {
        name: version
        for head in heads
        for cell in head.split("|")
        if (found := re.fullmatch(r"(\S+) ([\d.]+)", cell.strip()))
        for name, version in [found.groups()]
    }
    assert named == OTHERS["versions"]


@pytest.mark.criterion("U-8")
def test_what_is_not_published_is_said_where_one_begins() -> None:
    """As long as the changelog has no release, the pages that install say so."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    released = re.search(r"^## \[\d", changelog, re.MULTILINE)
    pages = ("README.md", "docs/helm.md", "docs/deploy.md", "docs/start.md", "docs/first-controller.md", "docs/distributions.md", "docs/troubleshooting.md")  # fmt: skip
    text = re.compile(r"[Nn]othing is (published|released) yet")
    for page in pages:
        assert bool(text.search((ROOT / page).read_text())) is (released is None), page
