"""What a run leaves that did not succeed: it may have built something, or destroyed all of it. Absence of a record is no absence."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from apis.cloud import TaskOperation, TaskOutcome, TaskRun, TaskStatus
from internal.cloud.taskdriver.inputs import was_built
from internal.cloud.taskdriver.record import record_traces
from internal.cloud.tasks.task import (
    DESTROYED,
    INTERRUPTIBLE,
    POSSIBLY_BUILT,
    TORN_DOWN,
    TaskContext,
    TaskHeld,
    TaskResult,
)
from internal.cloud.tasks.terraform.prior_state import StateFacts, check_state
from internal.cloud.tasks.terraform.task import TerraformTask
from tests.cloud.tasks.terraform.test_missing_state import (
    answered,
    built,
    keeper_of,
    recorded,
    refused,
)
from tests.cloud.tasks.workbench import Workbench

pytestmark = pytest.mark.criterion("G-C1")

AT = datetime(2026, 1, 1, tzinfo=UTC)
MAYBE = {POSSIBLY_BUILT: "true"}
GONE = {TORN_DOWN: "true"}
APPLY, TEARDOWN = TaskOperation.APPLY, TaskOperation.TEARDOWN


class Killed(BaseException):
    """The end of a run in the midst of its work."""


@pytest.mark.parametrize("kept_in", ["folder", "workspace"])
@pytest.mark.parametrize("deleted", [False, True], ids=["before", "after"])
async def test_g_c1_a_teardown_that_is_killed_at_the_end_is_finished_by_the_next(
    tmp_path: Path, kept_in: str, deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keeper_of(kept_in, tmp_path) as keeper:
        given = await built(keeper)
        of_task = TerraformTask.run
        words: dict[str, str] = {}

        def killed(name: str, value: str) -> None:
            words[name] = value
            if name == DESTROYED:
                raise Killed

        def run(self: TerraformTask, context: TaskContext) -> Awaitable[TaskResult]:
            return of_task(self, replace(context, keep=killed))

        with monkeypatch.context() as patched:
            patched.setattr(TerraformTask, "run", run)
            with pytest.raises(Killed):
                await keeper.run(TEARDOWN, given)
        assert words[DESTROYED] == "true"
        if deleted:
            await keeper.lose()
            await refused(keeper, TEARDOWN, given)  # without the report of that run
        status = TaskStatus(record=given["record"])
        record_traces(status, ended(TEARDOWN), words, built=True)
        result = await keeper.run(TEARDOWN, {**given, "record": status.record})
        assert not result.outputs


async def test_g_c1_a_teardown_that_was_cut_short_destroys_what_is_left(tmp_path: Path) -> None:
    async with keeper_of("folder", tmp_path) as keeper:
        given = await built(keeper)
        again = {**given, "record": {**given["record"], **GONE}}
        result = await keeper.run(TEARDOWN, again)
        assert result.message == "0 added, 0 changed, 2 destroyed"


@pytest.mark.parametrize("kept_in", ["folder", "secret", "workspace"])
@pytest.mark.parametrize("operation", [APPLY, TEARDOWN])
async def test_g_c1_what_only_failed_runs_may_have_built_is_not_taken_for_nothing(
    tmp_path: Path, kept_in: str, operation: TaskOperation
) -> None:
    async with keeper_of(kept_in, tmp_path) as keeper:
        (answer,) = await refused(keeper, operation, {"record": MAYBE})
        result = await keeper.run(operation, answered({"record": MAYBE}, answer))
        assert ("added" in result.message) is (operation is APPLY)


async def test_g_c1_a_state_of_a_failed_run_counts(tmp_path: Path) -> None:
    async with keeper_of("folder", tmp_path) as keeper:
        given = recorded(await keeper.run(APPLY, {}))
        assert given["record"]
        await keeper.run(APPLY, {"record": MAYBE})
        result = await keeper.run(TEARDOWN, {"record": MAYBE})
        assert result.message == "0 added, 0 changed, 2 destroyed"


@pytest.mark.parametrize("serial", ["", "x", "1e3"])
def test_g_c1_a_recorded_serial_that_was_edited_holds(tmp_path: Path, serial: str) -> None:
    """It is no older state and no defect of a run, but unknown."""
    record = {"lineage": "l", "serial": serial, "resources": "2"}
    given = replace(Workbench(tmp_path).context("terraform", {}).input, record=record)
    found = StateFacts(lineage="l", serial=3, resources=2)
    for teardown in (False, True):
        with pytest.raises(TaskHeld, match="is no number"):
            check_state(given, found, "here", teardown=teardown)


def ended(operation: TaskOperation, *, started: bool = True) -> TaskRun:
    return TaskRun(
        run_id="terraform-000000000000",
        operation=operation,
        outcome=TaskOutcome.FAILED,
        started_at=AT if started else None,
    )


@pytest.mark.parametrize(
    ("run", "outputs", "before", "record"),
    [
        (ended(APPLY), {"other": "word"}, {}, MAYBE),
        (ended(APPLY), {}, {}, MAYBE),
        (ended(APPLY), {INTERRUPTIBLE: "true"}, {}, {}),
        (ended(APPLY, started=False), {}, {}, {}),
        (ended(APPLY), {"other": "word"}, {"lineage": "l"}, {"lineage": "l"}),
        (ended(TEARDOWN), {"other": "word"}, {"lineage": "l"}, {"lineage": "l"}),
        (ended(TEARDOWN), {DESTROYED: "true"}, {"lineage": "l"}, {"lineage": "l", **GONE}),
    ],
    ids=["changed", "silent", "planned", "unstarted", "known", "failed-teardown", "destroyed"],
)
def test_g_c1_what_a_run_that_ended_leaves(
    run: TaskRun, outputs: dict[str, str], before: dict[str, str], record: dict[str, str]
) -> None:
    status = TaskStatus(record=before)
    record_traces(status, run, outputs, built=was_built(status))
    assert status.record == record
    assert was_built(status) is bool(before)
