"""What is decided is decided on facts of its own subject: candidate, time and snapshot (G-N3). Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis.cosmos import ScheduledVolumeSnapshotStatus, SnapshotPhase
from internal.cosmos.snapshots.effects import Create, Delete
from internal.cosmos.snapshots.facts import Facts, Made
from internal.cosmos.snapshots.machine import step
from tests.cosmos.snapshots.fake_cluster import SET, Cluster, Schedule, spec

pytestmark = pytest.mark.criterion("G-N3")

Phase = SnapshotPhase
HOURLY: Final = {"schedule": "0 * * * *", "deletePod": False}
PODS: Final = [f"{SET}-{number}" for number in range(3)]
EVENTS: Final = (
    "settle",
    "lag",
    "catch up",
    "bind",
    "cut",
    "ready",
    "error",
    "delete copy",
    "suspend",
    "resume",
    "minutes",
    "hour",
)


def subject(status: ScheduledVolumeSnapshotStatus) -> tuple[Any, ...]:
    last = status.last_snapshot
    return status.candidate, status.scheduled_at, last and last.name


def other(facts: Facts) -> Facts:
    """The same world with other facts of the candidate and its snapshot."""
    made = None if facts.made else Made(ready=True, status={"readyToUse": True})
    return replace(
        facts,
        made=made,
        height=facts.height + 1000,
        pod_gone=not facts.pod_gone,
        back=not facts.back,
        wanted=not facts.wanted,
    )


def happen(schedule: Schedule, event: str) -> None:
    cluster = schedule.cluster
    newest = cluster.copies.get(cluster.made[-1]) if cluster.made else None
    match event:
        case "settle":
            cluster.settle()
        case "lag":
            cluster.lagging = {PODS[0]}
        case "catch up":
            cluster.lagging = set()
        case "bind" if newest:
            newest.bound = True
        case "cut" if newest:
            newest.cut = True
        case "ready" if newest:
            newest.cut = newest.ready = True
        case "error" if newest:
            newest.error = "quota exceeded"
        case "delete copy" if newest:
            del cluster.copies[cluster.made[-1]]
        case "suspend" | "resume":
            schedule.spec = schedule.spec.model_copy(update={"suspend": event == "suspend"})
        case "minutes":
            cluster.pass_time(minutes=11)
        case "hour":
            cluster.pass_time(hours=1)


@given(events=st.lists(st.sampled_from(EVENTS), max_size=30), stops=st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_step_to_another_subject_has_no_effect_from_facts_of_the_old_one(
    events: list[str], stops: bool
) -> None:
    cluster = Cluster(heights={pod: 100 + number for number, pod in enumerate(PODS)})
    schedule = Schedule(cluster, spec(schedule="0 * * * *", deletePod=stops))
    for event in events:
        happen(schedule, event)
        for _ in range(20):
            before, facts = schedule.status, schedule.facts()
            decided = step(schedule.spec, before, facts, cluster.now)
            if before.phase is not None and subject(before) != subject(decided.status):
                assert decided.again
                assert all(isinstance(each, Delete) for each in decided.effects)
            for effect in decided.effects:
                if isinstance(effect, Create):
                    last, candidate = decided.status.last_snapshot, decided.status.candidate
                    assert last is not None
                    assert candidate is not None
                    assert effect.name == last.name
                    assert (effect.claim, effect.height) == (
                        candidate.pvc_name,
                        cluster.heights[candidate.pod_name],
                    )
            schedule.write(decided)
            done = [schedule.do(each) for each in decided.effects]
            if not decided.again and not (done and all(done)):
                break


@pytest.mark.parametrize("stops", [False, True])
def test_other_facts_of_the_old_subject_change_no_effect(stops: bool) -> None:
    schedule = Schedule(Cluster(), spec(schedule="0 * * * *", deletePod=stops))
    schedule.look()
    schedule.cluster.pass_time(hours=1)
    changes = 0
    for _ in range(12):
        before, facts = schedule.status, schedule.facts()
        decided = step(schedule.spec, before, facts, schedule.cluster.now)
        if subject(before) != subject(decided.status):
            changes += 1
            poisoned = step(schedule.spec, before, other(facts), schedule.cluster.now)
            if subject(poisoned.status) != subject(before):
                assert poisoned.effects == decided.effects
        schedule.write(decided)
        for effect in decided.effects:
            schedule.do(effect)
        schedule.cluster.settle()
    assert changes >= 2
