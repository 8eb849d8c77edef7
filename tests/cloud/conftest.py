"""What all tests of the cloud system share."""

from __future__ import annotations

import pytest

from tests.audit.ledger import Ledger
from tests.cloud.account import Audit


@pytest.fixture(scope="session", autouse=True)
def _taken_down(ledger: Ledger) -> None:
    """What managers ask is audited."""
    Audit.ledger = ledger
