"""The shipped presets, over 200 simulated instances in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from apis.cloud import FleetRolloutPhase
from ctrlruntime.rollout import ChangeKind
from internal.cloud.bulk import MONTHLY, PATCH
from internal.cloud.rollouts.strategy import approval_digest, approve_wave
from tests.cloud.rollouts.fleet import FleetSimulation, instances, sample

COUNTS = {"internal": 10, "trial": 90, "production": 100}
BEGIN = datetime(2026, 3, 2, 0, 0, tzinfo=UTC)
PASS = timedelta(minutes=30)
DAY = timedelta(days=1)


def table(harnesses: object) -> list[dict[str, int]]:
    """Return by harness how many instances of each type have the version at its end."""
    return [
        {kind: -(-COUNTS[kind] * share // 100) for kind, share in harness.percent.items()}
        for harness in harnesses  # type: ignore[attr-defined]
    ]


@pytest.mark.criterion("RO-FLEET-MONTHLY")
def test_the_monthly_preset_reaches_the_counts_of_each_stage_on_its_days() -> None:
    run = FleetSimulation(sample("fleetrollout-monthly"), instances(COUNTS), BEGIN)
    seen = []
    for days in (3, 5, 7, 9, 11):  # the ends of the harnesses 0-2, 3-4, 5-6, 7-8 and 9-10
        run.run(BEGIN + days * DAY, PASS)
        seen.append(run.counts())
    assert seen == table(MONTHLY)
    assert run.status.phase is FleetRolloutPhase.COMPLETE
    assert len(run.assigned) == sum(COUNTS.values())
    assert run.most_changing <= 10


@pytest.mark.criterion("RO-FLEET-MONTHLY")
def test_the_monthly_preset_keeps_its_windows_across_the_change_to_summer_time() -> None:
    begin = datetime(2026, 3, 25, tzinfo=UTC)  # clocks change on the 29th
    run = FleetSimulation(sample("fleetrollout-monthly"), instances(COUNTS), begin)
    run.run(begin + 11 * DAY, PASS)
    assert len(run.assigned) == sum(COUNTS.values())
    berlin = ZoneInfo("Europe/Berlin")
    hours = {at.astimezone(berlin).hour for at, _ in run.assigned if at.date().day != 29}
    assert hours <= {2, 3, 4, 5}
    assert {at.astimezone(berlin).utcoffset() for at, _ in run.assigned} == {
        timedelta(hours=1),
        timedelta(hours=2),
    }


@pytest.mark.criterion("RO-FLEET-MONTHLY")
def test_one_bad_build_is_halted_in_the_first_wave_and_taken_back() -> None:
    run = FleetSimulation(
        sample("fleetrollout-monthly"), instances(COUNTS), BEGIN, bad=frozenset({"5.3.0"})
    )
    run.run(BEGIN + 11 * DAY, PASS)
    reached = {item.name for _, item in run.assigned if item.version == "5.3.0"}
    restored = [item.name for _, item in run.assigned if item.change.kind is ChangeKind.ROLLBACK]
    assert reached
    assert all(name.startswith("internal-") for name in reached)
    assert sorted(restored) == sorted(reached)
    assert run.counts() == {"internal": 0, "trial": 0, "production": 0}
    assert run.status.phase is FleetRolloutPhase.ROLLED_BACK
    assert run.status.wave == "days-0-2"


@pytest.mark.criterion("RO-FLEET-PATCH")
def test_the_patch_preset_reaches_its_counts_and_waits_for_the_last_approval() -> None:
    run = FleetSimulation(sample("fleetrollout-patch"), instances(COUNTS), BEGIN)
    seen = []
    for number in (1, 2, 3, 6):
        run.run(BEGIN + number * DAY, PASS)
        seen.append(run.counts())
    assert seen[:3] == table(PATCH)[:3]
    assert seen[3] == seen[2]
    assert run.status.phase is FleetRolloutPhase.WAITING_FOR_APPROVAL
    digest = approval_digest(run.rollout.spec)
    assert run.status.approval_digest == digest
    run.annotations["cloud.ctrlruntime.dev/approved-waves"] = approve_wave({}, "day-3", digest)
    run.run(run.now + DAY, PASS)
    assert run.counts() == table(PATCH)[3]


@pytest.mark.criterion("RO-FLEET-PATCH")
def test_a_patch_of_a_release_under_way_restarts_at_the_named_wave() -> None:
    run = FleetSimulation(sample("fleetrollout-monthly"), instances(COUNTS), BEGIN)
    run.run(BEGIN + 8 * DAY, PASS)
    reached = {name for name, item in run.fleet.items() if item.version == "5.3.0"}
    run.rollout = sample("fleetrollout-monthly", targetVersion="5.3.1", startAt="days-5-6")
    run.run(BEGIN + 10 * DAY, PASS)
    assert run.counts() == table(MONTHLY)[2]
    assert all(item.version in {"5.2.0", "5.3.0", "5.3.1"} for item in run.fleet.values())
    assert reached
    run.run(BEGIN + 15 * DAY, PASS)
    assert run.counts() == COUNTS


@pytest.mark.criterion("RO-FLEET-APPROVAL")
def test_an_approval_of_other_waves_or_another_version_does_not_count() -> None:
    run = FleetSimulation(sample("fleetrollout-patch"), instances(COUNTS), BEGIN)
    digest = approval_digest(run.rollout.spec)
    run.annotations["cloud.ctrlruntime.dev/approved-waves"] = approve_wave({}, "day-3", digest)
    run.rollout = sample("fleetrollout-patch", targetVersion="5.3.2")
    run.run(BEGIN + 6 * DAY, PASS)
    assert run.counts() == table(PATCH)[2]
    assert run.status.phase is FleetRolloutPhase.WAITING_FOR_APPROVAL
