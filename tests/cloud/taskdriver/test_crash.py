"""A manager that dies at any effect: the next one ends in the same state, with no run twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from apis.cloud import InstanceTerraform, PlanApproval, TaskState, TerraformRuns
from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.client.errors import TransportError, WriteOutcomeUnknown
from ctrlruntime.envtest.proxy import Cut, LoseReply, Match
from internal.cloud.labels import APPROVED_PLAN, REJECTED_PLAN
from internal.cloud.runs import RunState
from internal.cloud.tasks.plans import MadePlan, plan_output
from tests.cloud.taskdriver.fake_provider import Lost
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, Life, TaskDriverHarness, run_of

SECRET = BUILTIN[GroupVersionKind("", "v1", "Secret")]
TEARS_DOWN = replace(PLAIN, teardown=True, history=2)
MANUAL = TerraformRuns(approval=PlanApproval.MANUAL)
WRITES = Match(user="manager", verb="write")


@dataclass
class Story:
    """The life of one object, told whatever happens to the managers."""

    harness: TaskDriverHarness
    name: str
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    manager: Life | None = None
    deaths: int = 0

    async def survive(self, step: Callable[[Life], Awaitable[object]]) -> None:
        """Do a step; if the manager dies of it, a new one does it again."""
        for _ in range(6):
            if self.manager is None:
                self.manager = await self.stack.enter_async_context(self.harness.life())
            try:
                await step(self.manager)
            except (TransportError, WriteOutcomeUnknown, Lost):
                self.deaths += 1
                self.manager = None
                await self.stack.aclose()
                continue
            return
        raise AssertionError("it never succeeds")

    async def drive(self) -> None:
        async def step(life: Life) -> None:
            if await self.is_there():
                await life.drive(self.name, definition=TEARS_DOWN)

        await self.survive(step)

    async def end(self, state: RunState, **changes: object) -> None:
        run = run_of((await self.harness.read(self.name)).status)
        self.harness.outside.move(run.run_id, RunState.RUNNING)
        self.harness.outside.move(run.run_id, state, **changes)
        await self.drive()

    async def is_there(self) -> bool:
        found = await self.harness.admin.list(InstanceTerraform, NAMESPACE)
        return any(item.metadata.name == self.name for item in found)

    async def run_scenario(self) -> dict[str, Any]:
        """Created, carried out, changed, failed, tried again, changed, deleted. What is left of it."""
        await self.harness.make(self.name, spec={"domain": "a.example.com"})
        await self.drive()
        await self.end(RunState.SUCCEEDED, outputs={"a": "1"}, secret_outputs={"k": "hidden"})
        await self.harness.change(self.name, domain="b.example.com")
        await self.drive()
        await self.end(RunState.FAILED, message="no quota")
        self.harness.clock.advance(60)
        await self.drive()
        await self.end(RunState.SUCCEEDED, outputs={"a": "2"}, secret_outputs={"k": "other"})
        resource = await self.harness.read(self.name)
        uid = resource.metadata.uid
        left = {
            "outputs": resource.status.outputs,
            "ready": resource.status.phase,
            "attempt": run_of(resource.status).attempt,
            "secret": (
                await self.harness.admin.get(SECRET, f"{self.name}-outputs", namespace=NAMESPACE)
            )["data"],
            "steps": [(item.type, item.status) for item in resource.status.task_conditions],
            "runs": [run.state for run in self.harness.outside.of(uid)],
        }
        await self.harness.admin.delete(InstanceTerraform, self.name, namespace=NAMESPACE)
        await self.drive()
        await self.end(RunState.SUCCEEDED)
        await self.stack.aclose()
        left["gone"] = not await self.is_there()
        left["runs at the end"] = self.harness.outside.of(uid)
        left["begun"] = sorted(
            self.harness.outside.begun[run_id]
            for run_id, request in self.harness.outside.requests.items()
            if request.input.owner.uid == uid
        )
        return left


class PlanStory(Story):
    """The life of an object whose plans wait for a person."""

    async def drive(self) -> None:
        async def step(life: Life) -> None:
            await life.drive(self.name, terraform_runs=MANUAL)

        await self.survive(step)

    async def decide(self, annotation: str) -> str:
        """Approve or reject the plan that waits. Returns its content."""
        plan = (await self.harness.read(self.name)).status.plan
        assert plan is not None
        await self.harness.annotate_all(self.name, {annotation: plan.digest})
        await self.drive()
        return plan.content

    async def run_scenario(self) -> dict[str, Any]:
        """Planned, approved, changed, planned, rejected. What is left of it."""
        await self.harness.make(self.name, spec={"domain": "a.example.com"})
        await self.drive()
        await self.end(RunState.SUCCEEDED, outputs=plan_output(MadePlan(content="one", add=1)))
        decided = [await self.decide(APPROVED_PLAN)]
        await self.end(RunState.SUCCEEDED, outputs={"a": "1"})
        await self.harness.change(self.name, domain="b.example.com")
        await self.drive()
        await self.end(RunState.SUCCEEDED, outputs=plan_output(MadePlan(content="two", destroy=1)))
        decided.append(await self.decide(REJECTED_PLAN))
        await self.end(RunState.FAILED, retryable=False)
        resource = await self.harness.read(self.name)
        await self.stack.aclose()
        requests = [
            request
            for request in self.harness.outside.requests.values()
            if request.input.owner.uid == resource.metadata.uid
        ]
        taken = [item.input.plan for item in requests]
        return {
            "gone": True,
            "decided": decided,
            "outputs": resource.status.outputs,
            "phase": resource.status.phase,
            "plan": resource.status.plan,
            "decisions": [plan and (plan.content, plan.decision) for plan in taken],
            "begun": [self.harness.outside.begun[item.run_id] for item in requests],
        }


async def check(
    harness: TaskDriverHarness,
    fault: Callable[[int], Callable[[], bool]],
    story_of: type[Story] = Story,
) -> int:
    """Tell the story with the n-th effect going wrong, for every n. Returns how many there were."""
    expected = await story_of(harness, "reference").run_scenario()
    assert expected["gone"]
    assert expected["begun"] == [1, 1, 1, 1]
    number = 0
    while True:
        number += 1
        fired = fault(number)
        story = story_of(harness, f"acme-{number}")
        assert await story.run_scenario() == expected, f"with a fault at effect {number}"
        if not fired():
            return number - 1
        assert story.deaths >= 1


@pytest.mark.timeout(1800)
@pytest.mark.criterion("SG-27")
@pytest.mark.parametrize("story_of", [Story, PlanStory])
@pytest.mark.parametrize("action", [Cut(), LoseReply()], ids=["before", "after"])
async def test_a_manager_that_dies_at_a_write_to_the_server(
    harness: TaskDriverHarness, action: Cut | LoseReply, story_of: type[Story]
) -> None:
    def fault(nth: int) -> Callable[[], bool]:
        rule = harness.env.proxy.add(action, WRITES, nth=nth)

        def fired() -> bool:
            done = rule.fired > 0
            harness.env.proxy.remove(rule)
            return done

        return fired

    assert await check(harness, fault, story_of) == {Story: 11, PlanStory: 8}[story_of]
    assert harness.outside.most_live == 1


@pytest.mark.timeout(1800)
@pytest.mark.criterion("SG-27")
@pytest.mark.parametrize("story_of", [Story, PlanStory])
@pytest.mark.parametrize("kind", ["fail", "lose"])
async def test_a_manager_that_dies_at_an_effect_outside(
    harness: TaskDriverHarness, kind: str, story_of: type[Story]
) -> None:
    def fault(nth: int) -> Callable[[], bool]:
        harness.outside.fault = (nth, kind)

        def fired() -> bool:
            done = harness.outside.fault is None
            harness.outside.fault = None
            return done

        return fired

    assert await check(harness, fault, story_of) >= {Story: 7, PlanStory: 4}[story_of]
    assert harness.outside.most_live == 1


@pytest.mark.criterion("SG-27")
async def test_the_intent_is_on_record_before_the_run_exists(harness: TaskDriverHarness) -> None:
    await harness.make()
    harness.outside.fail.add("start")
    async with harness.life() as life:
        with pytest.raises(Lost):
            await life.drive()
    run = run_of((await harness.read()).status)
    assert run.state is TaskState.CREATING
    assert run.deadline is not None
    assert not harness.outside.runs
    async with harness.life() as life:
        await life.drive()
    assert list(harness.outside.begun) == [run.run_id]


async def test_nothing_is_started_while_its_intent_cannot_be_written(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    harness.env.proxy.add(Cut(), WRITES, times=None)
    for _ in range(3):
        async with harness.life() as life:
            with pytest.raises((TransportError, WriteOutcomeUnknown)):
                await life.drive()
    assert harness.outside.calls["start"] == 0


async def test_who_may_not_lead_does_nothing_outside(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        harness.refused = "leader election lost"
        with pytest.raises(RuntimeError, match="leader election lost"):
            await life.drive()
        assert harness.outside.calls["start"] == 0
        assert run_of((await harness.read()).status).state is TaskState.CREATING
    harness.refused = ""
    async with harness.life() as successor:
        await successor.drive()
        assert len(harness.outside.live()) == 1


async def test_a_decision_on_an_older_state_is_refused_by_the_server(
    harness: TaskDriverHarness,
) -> None:
    """Two managers during a hand-over: the second decides on what it saw before the first acted."""
    await harness.make()
    async with harness.life() as first, harness.life() as second:
        old = await second.seen()
        await first.drive()
        started = run_of((await harness.read()).status).run_id
        await first.finish(RunState.FAILED, retryable=False)
        mark = harness.outside.calls["start"]
        progress = await second.step(resource=old)
        assert progress.requeue_after is not None
        assert progress.requeue_after < 1
        assert harness.outside.calls["start"] == mark
        left = run_of((await harness.read()).status)
        assert (left.run_id, left.state) == (started, TaskState.DONE), "nothing is overwritten"
        seen = second.cache.get(InstanceTerraform, "acme", namespace=NAMESPACE)
        assert seen is not None
        assert run_of(seen.status).run_id == started, "and it has looked again"
