"""What every test shares."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture(autouse=True, scope="session")
def _no_implicit_event_loop() -> None:
    """Keeps pytest-asyncio from creating a loop that nobody closes.

    Asked for the current loop after a synchronous test, the default policy makes one, and the
    warning about it fails the run. Once a loop (or none) was set, it raises instead.
    """
    asyncio.set_event_loop(None)
