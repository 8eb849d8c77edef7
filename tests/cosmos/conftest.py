"""What all tests of the cosmos system share."""

from __future__ import annotations

import pytest

from tests.account import Audit
from tests.audit.ledger import Ledger


@pytest.fixture(scope="session", autouse=True)
def _taken_down(ledger: Ledger) -> None:
    """What managers ask is audited."""
    Audit.ledger = ledger
