"""Which lock of a state is orphaned, and what newer inputs do to a run that applies. In virtual time."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from apis.cloud import InstanceTerraform, TaskOutcome
from internal.cloud.labels import CANCEL, RETRY, UNLOCK
from internal.cloud.runs import RunState
from internal.cloud.tasks.task import INTERRUPTIBLE, LOCK_HOLDER, LOCK_INFO
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, Life, TaskDriverHarness, run_of

pytestmark = pytest.mark.criterion("G-C3")

GUARDED = replace(PLAIN, guards_changes=True, teardown=True)
GRACE = 30.0
WHO = "root@host"
LOCK = "0b4a1c52-8d5e"


async def begin(harness: TaskDriverHarness, life: Life, **outputs: str) -> str:
    """A run that is under way and reports `outputs`."""
    await harness.make()
    await life.drive(definition=GUARDED)
    run_id = run_of((await harness.read()).status).run_id
    harness.outside.move(run_id, RunState.RUNNING, outputs=outputs)
    harness.outside.heeds_cancel = False
    await life.drive(definition=GUARDED)
    return run_id


async def pass_grace(harness: TaskDriverHarness, life: Life) -> None:
    await life.drive(definition=GUARDED)
    harness.clock.advance(GRACE + 1)
    await life.drive(definition=GUARDED)


@pytest.mark.parametrize("outputs", [{}, {LOCK_HOLDER: WHO}], ids=["unknown", "applies"])
async def test_g_c3_newer_inputs_wait_for_a_run_that_may_apply(
    harness: TaskDriverHarness, outputs: dict[str, str]
) -> None:
    """A provider that does not show how far the run is, such as a Job, is no permission to interrupt it."""
    async with harness.life() as life:
        await begin(harness, life, **outputs)
        await harness.change(domain="new.example.com")
        await pass_grace(harness, life)
        status = (await harness.read()).status
        assert harness.outside.cancelled == []
        assert run_of(status).interrupt_at is None
        assert "newer inputs do not interrupt it; `manager instance cancel " in status.message


async def test_g_c3_newer_inputs_interrupt_a_plan(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        run_id = await begin(harness, life, **{INTERRUPTIBLE: "true"})
        await harness.change(domain="new.example.com")
        await pass_grace(harness, life)
        assert set(harness.outside.cancelled) == {run_id}


async def test_g_c3_a_plan_that_begins_to_apply_in_the_grace_is_awaited(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        run_id = await begin(harness, life, **{INTERRUPTIBLE: "true"})
        await harness.change(domain="new.example.com")
        await life.drive(definition=GUARDED)
        assert run_of((await harness.read()).status).interrupt_at is not None
        harness.outside.move(run_id, RunState.RUNNING, outputs={})
        await pass_grace(harness, life)
        assert harness.outside.cancelled == []


@pytest.mark.parametrize("cause", ["cancel", "retry", "delete", "deadline"])
async def test_g_c3_a_person_and_the_deadline_interrupt_an_apply(
    harness: TaskDriverHarness, cause: str
) -> None:
    async with harness.life() as life:
        run_id = await begin(harness, life)
        if cause == "delete":
            await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)
        elif cause == "deadline":
            harness.clock.advance(GUARDED.timeout)
        else:
            given = {CANCEL: run_id} if cause == "cancel" else {RETRY: "now"}
            await harness.annotate_all("acme", given)
        await pass_grace(harness, life)
        assert run_id in harness.outside.cancelled


@dataclass(frozen=True)
class Lock:
    who: str = WHO
    after: float = 0.0
    """Seconds from the middle of the first run to the acquisition of the lock."""
    reported: str = WHO
    """The holder that the first run reported."""


async def refused(harness: TaskDriverHarness, life: Life, given: Lock) -> str:
    """A run is ended by force, and the next one is refused for a lock. Returns the first run's id."""
    outputs = {LOCK_HOLDER: given.reported} if given.reported else {}
    run_id = await begin(harness, life, **outputs)
    harness.clock.advance(10)
    created = harness.clock() + timedelta(seconds=given.after)
    harness.clock.advance(10)
    await harness.annotate_all("acme", {CANCEL: run_id})
    harness.outside.move(run_id, RunState.CANCELLED, outputs=outputs)
    await life.drive(definition=GUARDED)
    harness.clock.advance(60)
    await harness.annotate_all("acme", {RETRY: "again"})
    await life.drive(definition=GUARDED)
    second = run_of((await harness.read()).status).run_id
    assert second != run_id
    lock = {"id": LOCK, "who": given.who, "operation": "Apply", "created": created.isoformat()}
    harness.outside.move(
        second, RunState.FAILED, message="locked", outputs={LOCK_INFO: json.dumps(lock)}
    )
    await life.drive(definition=GUARDED)
    return run_id


async def test_g_c3_a_lock_that_an_interrupted_run_left_is_orphaned(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        run_id = await refused(harness, life, Lock())
        status = (await harness.read()).status
        first = next(each for each in status.history if each.run_id == run_id)
        assert (first.outcome, first.state_lock_holder) == (TaskOutcome.CANCELLED, WHO)
        assert status.state_lock is not None
        assert status.state_lock.run_id == run_id
        assert f"that was run {run_id} of this object" in status.message
        assert "`manager instance unlock " in status.message

        await harness.annotate_all("acme", {UNLOCK: LOCK, RETRY: "unlock"})
        await life.drive(definition=GUARDED)
        third = run_of((await harness.read()).status).run_id
        assert harness.outside.requests[third].input.unlock == LOCK
        harness.outside.move(third, RunState.SUCCEEDED)
        await life.drive(definition=GUARDED)
        assert (await harness.read()).status.state_lock is None


@pytest.mark.parametrize(
    "lock",
    [
        Lock(who="ada@laptop"),
        Lock(after=60.0),
        Lock(after=-600.0),
        Lock(reported=""),
        Lock(reported="", who="ada@terraform-000000000000-abcde"),
    ],
    ids=["another holder", "later", "earlier", "never held", "another Pod"],
)
async def test_g_c3_a_lock_that_may_be_in_use_is_never_given_back(
    harness: TaskDriverHarness, lock: Lock
) -> None:
    async with harness.life() as life:
        await refused(harness, life, lock)
        status = (await harness.read()).status
        assert status.state_lock is not None
        assert status.state_lock.run_id == ""
        assert "no run of this object left behind" in status.message
        await harness.annotate_all("acme", {UNLOCK: LOCK, RETRY: "unlock"})
        await life.drive(definition=GUARDED)
        third = run_of((await harness.read()).status).run_id
        assert harness.outside.requests[third].input.unlock == ""


async def test_g_c3_a_lock_of_a_pod_that_is_gone_is_orphaned(harness: TaskDriverHarness) -> None:
    """Nothing is left of its report; the host that the lock names is the run's."""
    async with harness.life() as life:
        run_id = await begin(harness, life)
        harness.outside.vanish(run_id)
        await life.drive(definition=GUARDED)
        harness.clock.advance(3600)
        await life.drive(definition=GUARDED)
        second = run_of((await harness.read()).status).run_id
        lock = {"id": LOCK, "who": f"root@{run_id}-x2v9k", "created": "?"}
        harness.outside.move(second, RunState.FAILED, outputs={LOCK_INFO: json.dumps(lock)})
        await life.drive(definition=GUARDED)
        status = (await harness.read()).status
        assert status.state_lock is not None
        assert status.state_lock.run_id == run_id
