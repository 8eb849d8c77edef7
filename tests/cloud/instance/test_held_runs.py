"""A run that a person has to decide on: the condition, event, list, plan and approval of all holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from apis.cloud import Instance, TaskOutcome, TaskRun, TaskState, TaskStatus
from internal.cloud.instance.held_runs import held_conditions, held_run
from internal.cloud.labels import DATABASE_RESTORED
from internal.cloud.tasks.kubernetes.changes import ChangeRecord, hold_message
from manager.commands.approve import _approve, held_sets
from manager.console.rows import _holds
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, instance
from tests.cloud.instance.test_deletion import condition, events, held
from tests.cloud.test_plan_command import in_file, run_plan

RECORD = ChangeRecord(
    change="u-1", uid="u-1", from_version="5.2.0", to_version="5.3.0", steps={"migrate": "now"}
)


@pytest.mark.criterion("G-C2")
async def test_g_c2_a_held_version_is_shown_and_approved_as_all_holds(
    e2e_harness: E2EHarness, tmp_path: Path
) -> None:
    outside = e2e_harness.elsewhere
    outside.failing["kubernetes"] = hold_message(RECORD, "5.2.0", "src-1", NAMESPACE)
    outside.holding["kubernetes"] = "MigratedData"
    await e2e_harness.apply(instance())
    message = await held(e2e_harness)
    assert RECORD.digest in message
    assert len(RECORD.digest) == 16
    assert message in await events(e2e_harness, "DeletionsHeld")
    (found,), _ = await held_sets(e2e_harness.client, NAMESPACE)
    assert (found.reason, found.digest) == ("MigratedData", RECORD.digest)
    planned = await run_plan(
        e2e_harness.environment, "-f", in_file(tmp_path, instance(domain="new.example.com"))
    )
    assert RECORD.digest in planned.output
    stored = await e2e_harness.client.get(Instance.mapping(), "src-1", namespace=NAMESPACE)
    assert ("MigratedData", message) in _holds(stored["status"])

    outside.failing.clear()
    await _approve(e2e_harness.client, Instance, "src-1", NAMESPACE, RECORD.digest)
    await e2e_harness.phase("Ready")
    assert outside.started[-2].input.annotations[DATABASE_RESTORED] == RECORD.digest
    seen = await e2e_harness.until("Instance", lambda seen: not condition(seen, "DeletionsHeld"))
    assert seen is not None


@pytest.mark.criterion("G-C1", "G-C6")
async def test_g_c6_what_a_teardown_holds_is_a_condition(e2e_harness: E2EHarness) -> None:
    await e2e_harness.apply(instance(deletionProtection=False))
    await e2e_harness.phase("Ready")
    e2e_harness.elsewhere.failing["terraform"] = "there is no state"
    e2e_harness.elsewhere.holding["terraform"] = "MissingState"
    await e2e_harness.delete()
    assert await held(e2e_harness) == "There is no state"
    e2e_harness.elsewhere.failing.clear()
    await e2e_harness.edit("Instance", {"deletionPolicy": "Orphan"})
    await e2e_harness.gone("Instance")


@pytest.mark.criterion("G-C2")
def test_g_c2_a_run_under_way_holds_nothing() -> None:
    run = TaskRun(run_id="kubernetes-1", hold="MigratedData", message="held", state=TaskState.DONE)
    run.outcome = TaskOutcome.REJECTED
    assert held_run([TaskStatus(), TaskStatus(run=run)]) is run
    (shown,) = held_conditions([], run, 1)
    run.state = TaskState.STARTED
    assert held_run([TaskStatus(run=run)]) is None
    assert held_conditions([], None, 1) == ()
    assert [each.status for each in held_conditions([shown], None, 1)] == ["False"]
