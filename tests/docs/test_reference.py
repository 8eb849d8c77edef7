"""The pages of the packages name what the packages export."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from tests.docs import reference
from tests.docs.blocks import ROOT

PACKAGES = sorted(
    path.parent.name
    for path in (ROOT / "ctrlruntime").glob("*/__init__.py")
    if path.parent.name not in {"envtest", "webhook"}
)
"""The other two have pages of their own: docs/envtest.md and docs/webhooks.md."""


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_page_with_its_names_and_options(package: str) -> None:
    page = (reference.PAGES / f"{package}.md").read_text()
    assert f"<!-- names ctrlruntime.{package} -->" in page
    assert reference.filled(page) == page, "run `make generate`"


def test_options_are_listed_with_their_defaults_and_meaning() -> None:
    page = (reference.PAGES / "manager.md").read_text()
    told = re.search(r"\| `graceful_shutdown_timeout` \| `10.0` \| (.+) \|", page)
    assert told is not None
    assert told[1].startswith("Seconds that reconciles in progress get")


def test_a_name_without_meaning_is_refused() -> None:
    package = ModuleType("package")
    package.__dict__.update(silent=lambda: None, __all__=["silent"])
    with pytest.raises(reference.Undocumented, match=r"package\.silent has no docstring"):
        list(reference.names(package))
