"""The servers that scenarios run on."""

from __future__ import annotations

from typing import Final

import pytest

EMBEDDED: Final = "embedded"
REAL: Final = "kube-apiserver"


def server_of(item: pytest.Item) -> str:
    """Return the server that a scenario runs on."""
    chosen = item.callspec.params.get("shared_server") if hasattr(item, "callspec") else None
    return str(chosen or item.config.getoption("--backend"))
