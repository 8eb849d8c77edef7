"""Links between the documents lead somewhere."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT, documents

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """The anchors that headings get where Markdown is shown."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", documents())
def test_links_lead_somewhere(document: str) -> None:
    page = ROOT / document
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    broken = []
    for target in LINK.findall(text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and anchor not in anchors(found.read_text())):
            broken.append(target)
    assert broken == []
