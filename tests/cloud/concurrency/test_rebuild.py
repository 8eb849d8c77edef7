"""The ledger is filled from the record of the objects, over HTTP."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from apis.cloud import InstanceTerraform, Phase, TaskPriority, TaskState
from ctrlruntime.client.errors import APIError, Forbidden, NotFound, TransportError
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.envtest.proxy import Cut, Fail, Match
from ctrlruntime.resources import Definitions
from ctrlruntime.resources.definitions import CRD
from internal.cloud.concurrency import ConcurrencyLimiter
from internal.cloud.concurrency.rebuild import LedgerKeeper
from internal.cloud.runs import RunOwner, RunState
from internal.cloud.subresource import Subresource
from internal.cloud.tasks.task import Concurrency
from tests.cloud.taskdriver.fake_provider import Lost
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, Life, TaskDriverHarness, run_of

LIMITED = replace(PLAIN, concurrency=Concurrency(limit=2))
TERRAFORM: Subresource[Any] = Subresource(
    kind=InstanceTerraform, definition=LIMITED, desired=lambda _instance, _upstream: None
)


def keeper(life: Life, woken: list[RunOwner] | None = None) -> LedgerKeeper:
    ledger = life.tools.limiter
    assert isinstance(ledger, ConcurrencyLimiter)
    return LedgerKeeper(
        ledger=ledger,
        client=life.cache.live_client,
        subresources=[TERRAFORM],
        crds=Definitions(life.cache.live_client),
        clock=life.harness.clock,
        wake=(woken if woken is not None else []).append,
    )


async def phases(harness: TaskDriverHarness) -> dict[str, Phase]:
    found = await harness.admin.list(InstanceTerraform, NAMESPACE)
    return {item.metadata.name: item.status.phase for item in found}


@pytest.mark.criterion("SG-42")
@pytest.mark.criterion("SG-43")
async def test_after_a_crash_places_and_turns_are_as_they_were(harness: TaskDriverHarness) -> None:
    names = [f"acme-{number}" for number in range(5)]
    for name in names:
        await harness.make(name)
    async with harness.life() as life:
        await keeper(life).ready()
        for name in names[:4]:
            if name == names[1]:
                harness.outside.fail.add("start")
                with pytest.raises(Lost):
                    await life.drive(name, definition=LIMITED)
            else:
                await life.drive(name, definition=LIMITED)
            harness.clock.advance(1)
    assert len(harness.outside.live()) == 1, "the second has its place, and no run"
    async with harness.life() as life:
        await keeper(life).ready()
        ledger = life.tools.limiter
        assert isinstance(ledger, ConcurrencyLimiter)
        assert (ledger.running("terraform"), ledger.waiting("terraform")) == (2, 2)
        for name in reversed(names):
            await life.drive(name, definition=LIMITED)
        assert (await phases(harness))[names[1]] is Phase.RUNNING
        await life.finish(RunState.SUCCEEDED, names[0], definition=LIMITED)
        assert [owner.name for owner in life.woken][-1] == names[2], "first come, first served"
        for name in reversed(names):
            await life.drive(name, definition=LIMITED)
        assert (await phases(harness))[names[2]] is Phase.RUNNING
        harness.clock.advance(31)
        await life.drive(names[4], definition=LIMITED)
    assert harness.outside.most_live == 2
    waiting = (await harness.read(names[4])).status.waiting
    assert waiting is not None
    assert (waiting.limit, waiting.position) == (2, 2)


@pytest.mark.criterion("CP-RESTART")
async def test_after_a_restart_a_priority_on_record_counts_before_its_object_is_looked_at(
    harness: TaskDriverHarness,
) -> None:
    names = ["running-1", "running-2", "early", "patch"]
    priorities = [TaskPriority.NORMAL] * 3 + [TaskPriority.HIGH]
    for name in names:
        await harness.make(name)
    async with harness.life() as life:
        await keeper(life).ready()
        for name, priority in zip(names, priorities, strict=True):
            await life.drive(name, definition=LIMITED, priority=priority)
            harness.clock.advance(1)
    waiting = (await harness.read("patch")).status.waiting
    assert waiting is not None
    assert (waiting.position, waiting.priority) == (1, TaskPriority.HIGH)
    async with harness.life() as life:
        await keeper(life).ready()
        await life.finish(RunState.SUCCEEDED, "running-1", definition=LIMITED)
        await life.drive("early", definition=LIMITED)
        assert (await harness.read("early")).status.phase is Phase.WAITING
        await life.drive("patch", definition=LIMITED, priority=TaskPriority.HIGH)
        assert (await harness.read("patch")).status.phase is Phase.RUNNING


async def test_nothing_is_known_before_the_read_and_a_failed_read_is_repeated(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=LIMITED)
    async with harness.life() as life:
        await harness.env.client("admin").get(InstanceTerraform, "acme", namespace=NAMESPACE)
        harness.env.proxy.add(Cut(), Match(user="manager", verb="list"), times=6)
        kept = keeper(life)
        ledger = kept.ledger
        with pytest.raises(TransportError):
            await kept.ready()
        assert ledger.running("terraform") == 0
        harness.env.proxy.clear()
        await kept.ready()
        assert ledger.running("terraform") == 1
        mark = harness.env.proxy.log.mark()
        await kept.ready()
        assert harness.env.proxy.log.since(mark).select(user="manager").total == 0, "once"


@pytest.mark.parametrize(("crd_reads", "error"), [("answered", NotFound), ("refused", Forbidden)])
async def test_a_404_of_a_kind_that_has_a_crd_is_not_taken_for_no_objects(
    harness: TaskDriverHarness, crd_reads: str, error: type[APIError]
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=LIMITED)
    async with harness.life() as life:
        kept = keeper(life)
        _not_served(harness)
        if crd_reads == "refused":
            harness.env.proxy.add(Fail(code=403), _lists("customresourcedefinitions.*"), times=10)
        with pytest.raises(error):
            await kept.ready()
        with pytest.raises(error):
            await kept.ready()
        harness.env.proxy.clear()
        await kept.ready()
        assert kept.ledger.running("terraform") == 1


@pytest.mark.parametrize("crd", ["gone", "terminating"])
async def test_a_kind_whose_crd_is_deleted_has_no_objects(
    harness: TaskDriverHarness, crd: str
) -> None:
    name = "instanceterraforms.cloud.ctrlruntime.dev"
    held = {"metadata": {"finalizers": ["test.ctrlruntime.dev/held"]}}
    if crd == "terminating":
        await harness.admin.patch(CRD, name, held)
    async with harness.life() as life:
        await harness.admin.delete(CRD, name)
        if crd == "terminating":
            _not_served(harness)
        kept = keeper(life)
        await kept.ready()
        assert kept.ledger.running("terraform") == 0


def _lists(resource: str) -> Match:
    return Match(user="manager", verb="list", resource=resource)


def _not_served(harness: TaskDriverHarness) -> None:
    """Have the server answer as one that has not loaded its CRDs yet."""
    harness.env.proxy.add(Fail(code=404), _lists("instanceterraforms.*"), times=10)


@pytest.mark.criterion("SG-43")
async def test_a_write_of_the_last_leader_that_arrives_late_is_learned(
    harness: TaskDriverHarness,
) -> None:
    for name in ("a", "b", "late"):
        await harness.make(name)
    async with harness.life() as old, harness.life() as new:
        woken: list[RunOwner] = []
        kept = keeper(new, woken)
        new.cache.informer(InstanceTerraform).add_handler(partial(kept.observe, TERRAFORM))
        await kept.ready()
        for name in ("a", "b"):
            await new.drive(name, definition=LIMITED)
        harness.refused = "leader election lost"
        with pytest.raises(RuntimeError, match="leader election lost"):
            await old.drive("late", definition=LIMITED)
        harness.refused = ""
        assert run_of((await harness.read("late")).status).state is TaskState.CREATING
        await eventually_holds(lambda: [owner.name for owner in woken] == ["late"], timeout=60.0)
        await new.drive("late", definition=LIMITED)
        assert len(harness.outside.live()) == 2, "it has to wait for a place after all"
        status = (await harness.read("late")).status
        assert status.phase is Phase.WAITING
        await new.finish(RunState.SUCCEEDED, "a", definition=LIMITED)
        await new.drive("late", definition=LIMITED)
        assert len(harness.outside.live()) == 2
        assert (await harness.read("late")).status.phase is Phase.RUNNING
    assert harness.outside.most_live == 2


@pytest.mark.criterion("SG-42")
async def test_an_object_that_is_deleted_gives_its_place_back(harness: TaskDriverHarness) -> None:
    for name in ("a", "b", "c"):
        await harness.make(name)
    async with harness.life() as life:
        kept = keeper(life)
        life.cache.informer(InstanceTerraform).add_handler(partial(kept.observe, TERRAFORM))
        await kept.ready()
        for name in ("a", "b", "c"):
            await life.drive(name, definition=LIMITED)
        await harness.admin.patch(
            InstanceTerraform, "a", {"metadata": {"finalizers": None}}, namespace=NAMESPACE
        )
        await harness.admin.delete(InstanceTerraform, "a", namespace=NAMESPACE)
        await eventually_holds(lambda: [owner.name for owner in life.woken] == ["c"], timeout=60.0)
        await life.drive("c", definition=LIMITED)
        assert (await harness.read("c")).status.phase is Phase.RUNNING
