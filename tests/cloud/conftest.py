"""What all tests of the cloud system share."""

from __future__ import annotations

import os

import pytest

from tests.audit.request_recorder import RequestRecorder
from tests.backends import SKIP_REAL
from tests.cloud.rbac import SUITE
from tests.rbac import SERVERS, Audit


@pytest.fixture(scope="session", autouse=True)
def _taken_down(ledger: RequestRecorder) -> None:
    """What managers ask is audited."""
    Audit.ledger = ledger
    if os.environ.get(SKIP_REAL) == "1":  # only there is anything listed that is streamed elsewhere
        ledger.lacks(SUITE, SERVERS, ("configmaps", "instances.cloud.ctrlruntime.dev"))
