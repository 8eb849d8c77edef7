"""Which nodes hang, by what was answered and by their Pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ctrlruntime.api.scalars import format_time
from ctrlruntime.cache.entry import EntryDecoder
from internal.cosmos.cache.observation import Observation
from internal.cosmos.selfheal.hangs import silent_since
from tests.cosmos.selfheal.harness import POD


def at(minute: int) -> datetime:
    return datetime(2026, 3, 1, 12, minute, tzinfo=UTC)


@pytest.mark.criterion("N-A19")
@pytest.mark.parametrize(
    ("started", "unready", "answered", "silent", "beside", "since"),
    [
        (0, None, 5, 6, 6, 5),
        (5, None, 4, 6, 6, None),  # it started again since, and may replay blocks for an hour
        (0, None, None, 6, 6, None),  # it never answered
        (0, 4, None, 6, 6, 6),  # it was ready once, under an earlier manager
        (0, 0, None, 6, 6, None),
        (0, 4, 5, None, 6, None),  # it answers
        (None, 4, 5, 6, 6, None),  # it does not run
        (0, None, 5, 6, 8, None),  # a network that was cut is whole again: it was not polled since
    ],
)
def test_a_node_hangs_if_it_answered_since_it_was_started(
    started: int | None,
    unready: int | None,
    answered: int | None,
    silent: int | None,
    beside: int,
    since: int | None,
) -> None:
    running = {} if started is None else {"running": {"startedAt": format_time(at(started))}}
    status: dict[str, Any] = {"containerStatuses": [{"name": "node", "state": running}]}
    if unready is not None:
        moment = format_time(at(unready))
        ready = {"type": "Ready", "status": "False", "lastTransitionTime": moment}
        status["conditions"] = [ready]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hub-0"}, "status": status}
    seen = Observation(
        *("hub-0", "uid", 0, at(7)),
        answered_at=None if answered is None else at(answered),
        silent_since=None if silent is None else at(silent),
    )
    found = silent_since(EntryDecoder(POD.gvk).decode_manifest(pod), seen, at(beside))
    assert found == (None if since is None else at(since))
