"""H-B11: ready for the present inputs, live and paused each have one definition."""

from __future__ import annotations

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import internal.cloud
from apis.cloud import InstanceTerraform, TaskState, TaskStatus
from ctrlruntime.api import find_condition
from ctrlruntime.json import Json
from internal.cloud.instance.walk import is_ready_for
from internal.cloud.labels import PAUSED, is_paused, pausing_annotation
from internal.cloud.runs import RunState
from internal.cloud.taskdriver import inputs_of, is_ready
from tests.cloud.taskdriver.harness import TaskDriverHarness, run_of

pytestmark = pytest.mark.criterion("H-B11")

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
LIBRARY_PAUSED = "ctrlruntime.dev/paused"


def resource(**status: Json) -> InstanceTerraform:
    """A subresource of generation 2 that is ready for it; `status` changes fields of its status."""
    made = InstanceTerraform.from_manifest(
        {"metadata": {"name": "acme", "namespace": "default", "uid": "u", "generation": 2}}
    )
    inputs = inputs_of(made)
    run = {
        "runID": "terraform-000000000001",
        "inputsVersion": inputs.version,
        "inputsHash": inputs.hash,
        "state": "Done",
        "outcome": "Succeeded",
    }
    fields: dict[str, Any] = {
        "observedGeneration": 2,
        "conditions": [ready("True", 2)],
        "run": run,
        "succeeded": {
            "inputsVersion": inputs.version,
            "inputsHash": inputs.hash,
            "runID": run["runID"],
            "finishedAt": NOW.isoformat(),
        },
    }
    for name, value in status.items():
        known = fields.get(name)
        fields[name] = {**known, **value} if isinstance(known, dict) and value else value
    made.status = TaskStatus.model_validate(fields)
    return made


def ready(status: str, generation: int) -> dict[str, Any]:
    return {
        "type": "Ready",
        "status": status,
        "reason": "Test",
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": NOW.isoformat(),
    }


FAILED = {"runID": "terraform-2", "attempt": 2, "outcome": "Failed", "state": "Done"}
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "as it should be": ({}, True),
    "status of an earlier generation": ({"observedGeneration": 1}, False),
    "condition of an earlier generation": ({"conditions": [ready("True", 1)]}, False),
    "condition is False": ({"conditions": [ready("False", 2)]}, False),
    "no condition": ({"conditions": []}, False),
    "nothing succeeded": ({"succeeded": None}, False),
    "other inputs succeeded": ({"succeeded": {"inputsVersion": "1-0", "inputsHash": ""}}, False),
    "the same content succeeded": ({"succeeded": {"inputsVersion": "1-0"}}, True),
    "a later attempt failed": ({"run": FAILED}, False),
    "an attempt after a failed one is under way": (
        {"run": {"runID": "terraform-3", "state": "Started", "outcome": None}, "history": [FAILED]},
        False,
    ),
    "a periodic run is under way": (
        {"run": {"runID": "terraform-3", "state": "Started", "outcome": None}, "history": []},
        True,
    ),
    "a run for other inputs is under way": (
        {
            "run": {
                "runID": "terraform-3",
                "inputsVersion": "1-1",
                "state": "Started",
                "outcome": None,
            }
        },
        False,
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_h_b11_every_reader_has_the_same_answer(case: str) -> None:
    status, expected = CASES[case]
    found = resource(**status)
    assert is_ready(found) is expected
    assert is_ready(found) is expected
    assert is_ready_for(found, found.spec) is expected


def test_h_b11_an_object_that_is_being_deleted_is_not_ready() -> None:
    found = resource()
    found.metadata.deletion_timestamp = NOW
    assert not is_ready(found)
    assert not is_ready(found, once=True)


async def test_h_b11_ready_falls_while_a_run_for_other_inputs_is_under_way(
    harness: TaskDriverHarness,
) -> None:
    """The spec goes away and comes back: what the run in between changed is not what is wanted."""
    await harness.make(spec={"domain": "a.example.com"})
    async with harness.life() as life:
        await life.drive()
        await life.finish()
        assert is_ready(await harness.read())
        await harness.change(domain="b.example.com")
        await life.drive()
        harness.outside.move(run_of((await harness.read()).status).run_id, RunState.RUNNING)
        await harness.change(domain="a.example.com")
        await life.drive()
        between = await harness.read()
        condition = find_condition(between.status.conditions, "Ready")
        assert condition is not None
        assert condition.status == "False", "the run for b may have changed everything"
        assert not is_ready(between)
        await life.finish()
        await life.finish()
        assert is_ready(await harness.read())


async def test_h_b11_a_failed_period_is_not_ready_again_before_an_attempt_succeeds(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(period=3600.0)
        await life.finish(period=3600.0)
        assert is_ready(await harness.read())
        harness.clock.advance(3601)
        await life.drive(period=3600.0)
        assert is_ready(await harness.read()), "the next period is under way"
        await life.finish(RunState.FAILED, retryable=True, message="no answer", period=3600.0)
        assert not is_ready(await harness.read())
        harness.clock.advance(timedelta(minutes=5).total_seconds())
        await life.drive(period=3600.0)
        assert run_of((await harness.read()).status).state is not TaskState.DONE
        assert not is_ready(await harness.read()), "attempt 2 has not succeeded yet"
        await life.finish(period=3600.0)
        assert is_ready(await harness.read())


@pytest.mark.parametrize("annotation", [PAUSED, LIBRARY_PAUSED])
@pytest.mark.parametrize(("value", "expected"), [("true", True), ("True", True), ("no", False)])
def test_h_b11_paused_by_either_annotation(annotation: str, value: str, expected: bool) -> None:
    assert is_paused({annotation: value}) is expected
    assert pausing_annotation({annotation: value}) == (annotation if expected else "")


@pytest.mark.parametrize("annotation", [PAUSED, LIBRARY_PAUSED])
async def test_h_b11_the_message_names_the_annotation_that_pauses(
    harness: TaskDriverHarness, annotation: str
) -> None:
    await harness.make(annotations={annotation: "true"})
    async with harness.life() as life:
        await life.drive()
    message = (await harness.read()).status.message
    assert message == f"Paused by the annotation {annotation}. Remove it to go on."


def test_h_b11_the_states_of_a_live_run_are_listed_once() -> None:
    lists = [
        path.name
        for path in Path(internal.cloud.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Set | ast.Tuple | ast.List)
        and {"TaskState.CREATED", "TaskState.STARTED"} <= {ast.unparse(item) for item in node.elts}
    ]
    assert lists == ["record.py"]
