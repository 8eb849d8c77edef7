"""Which upgrade is made, which counts, and which version runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from internal.cloud.instance.upgrades import (
    KEPT,
    Plan,
    Upgrade,
    deployed,
    name_of,
    plan,
    rolled_back,
)
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import instance
from tests.cloud.instance.test_first_rollout import changes

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def upgrade(start: str, end: str, minute: int = 0, attempt: int = 1, **more: bool) -> Upgrade:
    """One that succeeded at that minute, unless it is told otherwise."""
    when = NOW + timedelta(minutes=minute)
    made = Upgrade(
        name=name_of("src", start, end, attempt), from_version=start, to_version=end, since=when
    )
    if not more:
        return replace(made, succeeded=when, ran=True)
    return replace(made, **more)  # type: ignore[arg-type]


def test_names_follow_from_the_change() -> None:
    assert name_of("src", "1", "2", 1) == name_of("src", "1", "2", 1)
    names = {name_of("src", *change, 1) for change in (("1", "2"), ("2", "1"), ("12", ""))}
    assert len(names | {name_of("src", "1", "2", 2)}) == 4


@pytest.mark.criterion("SG-12")
def test_the_same_change_again_is_another_upgrade() -> None:
    there = [upgrade("1", "2", 1), upgrade("2", "1", 2)]
    assert plan("src", "1", "2", there).current == name_of("src", "1", "2", 2)
    assert deployed("1", there) == "1", "a success from before the way back counts no more"


def test_a_success_that_is_not_recorded_yet() -> None:
    assert deployed("1", [upgrade("1", "2", 1)]) == "2"
    assert deployed("2", [upgrade("1", "2", 1)]) == "2"
    assert deployed("", []) == ""


def test_one_under_way_is_awaited_though_another_version_is_wanted() -> None:
    running = upgrade("1", "2", running=True, ran=True)
    todo = plan("src", "1", "3", [running])
    assert todo.current == running.name
    assert todo.supersede == (running.name,)  # no further attempt, should this one fail
    assert plan("src", "1", "2", [running]).supersede == ()


def test_one_that_has_not_begun_is_given_up() -> None:
    waiting = upgrade("1", "2", ran=False)
    assert plan("src", "1", "1", [waiting]).supersede == (waiting.name,)
    todo = plan("src", "1", "3", [waiting])
    assert (todo.current, todo.supersede) == (name_of("src", "1", "3", 1), (waiting.name,))


def test_a_failure_stays_until_another_version_was_wanted() -> None:
    failed = upgrade("1", "2", 1, failed=True, ran=True)
    assert plan("src", "1", "2", [failed]).current == failed.name
    other = upgrade("1", "3", 2, superseded=True)
    assert plan("src", "1", "2", [failed, other]).current == name_of("src", "1", "2", 2)


@pytest.mark.criterion("H-B5")
def test_h_b5_a_failed_upgrade_is_replaced_when_any_of_its_inputs_changes() -> None:
    old, new = {"steps": {"migrate": "bad"}}, {"steps": {"migrate": "good"}}
    failed = replace(upgrade("1", "2", 1, failed=True, ran=True), spec=old)
    assert plan("src", "1", "2", [failed], old) == Plan(current=failed.name)
    assert plan("src", "1", "2", [failed]) == Plan(current=failed.name), "inputs are not known yet"
    todo = plan("src", "1", "2", [failed], new)
    assert todo == Plan(current=name_of("src", "1", "2", 2), supersede=(failed.name,))
    there = [replace(failed, failed=False, superseded=True), replace(failed, name=todo.current)]
    there[1] = replace(there[1], spec=new, failed=False)
    assert plan("src", "1", "2", there, new) == Plan(current=todo.current), "it is made once"


@pytest.mark.criterion("H-B5")
def test_h_b5_an_open_upgrade_with_other_inputs_is_superseded_and_a_running_one_awaited() -> None:
    old, new = {"domain": "a"}, {"domain": "b"}
    waiting = replace(upgrade("1", "2", ran=False), spec=old)
    assert plan("src", "1", "2", [waiting], new) == Plan(
        current=name_of("src", "1", "2", 2), supersede=(waiting.name,)
    )
    running = replace(waiting, running=True, ran=True)
    assert plan("src", "1", "2", [running], new) == Plan(
        current=running.name, supersede=(running.name,)
    )


@pytest.mark.criterion("H-B5")
def test_h_b5_a_bundle_that_an_earlier_release_did_not_record_is_not_compared() -> None:
    spec = {"toVersion": "2", "bundleRevision": "new"}
    failed = upgrade("1", "2", 1, failed=True, ran=True)
    unrecorded = replace(failed, spec={"toVersion": "2"})
    assert plan("src", "1", "2", [unrecorded], spec).current == failed.name
    recorded = replace(failed, spec={**spec, "bundleRevision": "old"})
    assert plan("src", "1", "2", [recorded], spec).current != failed.name


def test_what_was_given_up_half_way_is_rolled_back() -> None:
    failed = upgrade("1", "2", 1, failed=True, ran=True)
    assert rolled_back("1", "1", [failed]) == failed.name
    assert rolled_back("1", "2", [failed]) == ""
    assert rolled_back("1", "1", [upgrade("1", "2", 1, failed=True, ran=False)]) == ""
    assert rolled_back("3", "3", [failed, upgrade("1", "3", 2)]) == ""


@pytest.mark.criterion("SG-53")
def test_old_ones_are_pruned_and_the_newest_are_kept() -> None:
    there = [upgrade(str(number), str(number + 1), number) for number in range(KEPT + 3)]
    todo = plan("src", "9", "9", there)
    assert set(todo.prune) == {item.name for item in there[:3]}
    running = upgrade("0", "1", 0, attempt=2, running=True, ran=True)
    assert running.name not in plan("src", "9", "9", [running, *there]).prune


@pytest.mark.criterion("SIM-F9")
async def test_a_run_of_the_version_before_an_upgrade_waits_for_the_newer_one(
    e2e_harness: E2EHarness,
) -> None:
    """The infrastructure changes during the upgrade, and fails: until it is mended the workload's object has the old version."""
    outside = e2e_harness.elsewhere
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    outside.held.add("upgrade")
    await e2e_harness.edit("Instance", {"version": "5.2.0"})
    await e2e_harness.until("Instance", lambda found: found.status.task.startswith("upgrade-"))
    outside.failing["terraform"] = "no such machine"
    await e2e_harness.edit("Instance", {"instanceFeatures": {"machine": "large"}})
    await e2e_harness.until("InstanceTerraform", lambda found: found.spec.instance_features)
    await e2e_harness.annotate(kind="InstanceKubernetes", reconcile="1")
    outside.end("upgrade")
    await e2e_harness.until("InstanceTerraform", lambda found: found.status.phase == "Failed")
    held = await e2e_harness.until(
        "InstanceKubernetes", lambda found: "upgraded to 5.2.0" in found.status.message
    )
    assert held.status.phase == "Pending"
    await e2e_harness.idle()
    assert changes(e2e_harness) == ["kubernetes 5.1.0", "upgrade 5.2.0"]

    outside.failing.clear()
    await e2e_harness.edit("Instance", {"instanceFeatures": {"machine": "small"}})
    await e2e_harness.until("Instance", lambda found: found.status.version == "5.2.0")
    await e2e_harness.phase("Ready")
    assert changes(e2e_harness) == ["kubernetes 5.1.0", "upgrade 5.2.0", "kubernetes 5.2.0"]
