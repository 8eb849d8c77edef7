"""The servers that scenarios are told on, and what one of them cannot show."""

from __future__ import annotations

from typing import Final

import pytest

from ctrlruntime.envtest.backends import Version
from tests.conformance.releases import CHANGES

EMBEDDED: Final = "embedded"
REAL: Final = "kube-apiserver"


def server_of(item: pytest.Item) -> str:
    """Where a scenario is told."""
    chosen = item.callspec.params.get("ground") if hasattr(item, "callspec") else None
    return str(chosen or item.config.getoption("--backend"))


def lacking(item: pytest.Item, version: Version) -> str:
    """What a real server of a release lacks for a scenario; empty if nothing."""
    for mark in item.iter_markers("embedded"):
        return str(mark.args[0])
    for mark in item.iter_markers("since"):
        change = CHANGES[mark.args[0]]
        if version < (1, change.release):
            return f"since 1.{change.release}: {change.reason}"
    return ""
