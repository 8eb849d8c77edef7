"""What all tests of the cosmos system share."""

from __future__ import annotations

import pytest

from tests.audit.request_recorder import RequestRecorder
from tests.rbac import Audit


@pytest.fixture(scope="session", autouse=True)
def _taken_down(ledger: RequestRecorder) -> None:
    """What managers ask is audited."""
    Audit.ledger = ledger
