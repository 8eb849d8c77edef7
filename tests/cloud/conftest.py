"""What all tests of the cloud system share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.audit.request_recorder import RequestRecorder
from tests.cloud.rbac import SUITE
from tests.cloud.run_processes import assert_none_remains
from tests.rbac import SERVERS, Audit
from tests.real_servers import is_there


@pytest.fixture(scope="session", autouse=True)
def _taken_down(ledger: RequestRecorder) -> None:
    """What managers ask is audited."""
    Audit.ledger = ledger
    if not is_there():  # only on a real server is anything listed that is streamed elsewhere
        ledger.lacks(SUITE, SERVERS, ("configmaps", "instances.cloud.ctrlruntime.dev"))


@pytest.fixture(autouse=True)
def _no_run_remains(request: pytest.FixtureRequest) -> Iterator[None]:
    """No process of a local run outlives its test, be the manager stopped or killed."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None:
        assert_none_remains(folder)
