"""LV-8: a process that led writes no more at the end of its lease."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import structlog

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.transport import Transport
from ctrlruntime.clock import boottime
from ctrlruntime.events import EventRecorder
from ctrlruntime.manager import ManagerOptions
from ctrlruntime.manager.election import NEVER, ElectionOptions, LeaderElector, Term
from ctrlruntime.manager.leadership import LeaderElectionLost, Leadership
from ctrlruntime.manager.lease import LeaseLock
from ctrlruntime.manager.metrics import Metrics
from tests.client.peer import Peer, says

pytestmark = pytest.mark.criterion("LV-8")

LONG = 86_400.0


@pytest.fixture
async def leadership(config: Config) -> AsyncIterator[Leadership]:
    """One that has led; a test sets the term of its elector."""

    async def lead() -> None: ...

    logger = structlog.get_logger()
    async with Client.connect(config) as client:
        options = ManagerOptions(leader_election=True, leader_election_id="x")
        recorder = EventRecorder(client, "tests")
        subject = Leadership(
            config, options, Metrics(), recorder, logger, lead, lambda _error: None
        )
        subject._elector = LeaderElector(
            LeaseLock(client, "x", namespace="default"), "me", ElectionOptions(), subject, logger
        )
        yield subject


def passes(leadership: Leadership) -> tuple[bool, bool]:
    """Whether writes and events may be sent."""
    results = []
    for fence in (leadership.fence, leadership.event_fence):
        try:
            fence()
            results.append(True)
        except LeaderElectionLost:
            results.append(False)
    return results[0], results[1]


@pytest.mark.parametrize(
    ("writes", "events", "allowed"),
    [
        (LONG, 2 * LONG, (True, True)),
        (-1.0, LONG, (False, True)),
        (-2.0, -1.0, (False, False)),
        (NEVER, LONG, (False, True)),
        (NEVER, NEVER, (False, False)),
    ],
)
async def test_the_fence_at_the_end_of_the_lease_stops_writes_and_then_events(
    leadership: Leadership, writes: float, events: float, allowed: tuple[bool, bool]
) -> None:
    elector = leadership._elector
    assert elector is not None
    leadership._led = True
    elector.term = Term(boottime() + writes, boottime() + events)
    assert passes(leadership) == allowed


async def test_the_fence_lets_a_process_write_that_has_never_led(leadership: Leadership) -> None:
    assert passes(leadership) == (True, True)
    leadership.started_leading()
    assert passes(leadership) == (False, False)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("body", [None, b"{}"], ids=["empty", "body"])
async def test_the_fence_is_asked_for_every_write_and_for_no_read(
    method: str, body: bytes | None
) -> None:
    def fence() -> None:
        raise LeaderElectionLost

    async with (
        Peer(says({})) as peer,
        Transport(Config(host=peer.url), fence=fence) as transport,
    ):
        with pytest.raises(LeaderElectionLost):
            await transport.request(method, "/x", body=body, timeout=10.0)
        await transport.request("GET", "/x")
    assert [request.method for request in peer.requests] == ["GET"]
