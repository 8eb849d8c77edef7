"""Two managers decide at once: an instance that another one changed meanwhile is not changed again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from apis.cloud import FleetRollout, Instance
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.queue import Request
from ctrlruntime.rollout import Change, ChangeKind, ObservedClock
from internal.cloud.labels import RELEASE_ASSIGNMENT
from internal.cloud.release_assignment import ReleaseAssignment, format_assignment
from internal.cloud.rollouts.assigner import Assigner
from internal.cloud.rollouts.fleet_reader import FleetReader
from internal.cloud.rollouts.metrics import RolloutMetrics
from internal.cloud.rollouts.reconciler import FleetRolloutReconciler
from internal.cloud.subresources import SUBRESOURCES
from manager.controllers.cloud_options import CloudOptions
from manager.controllers.cloud_parts import make_parts
from tests.cloud.rollouts.harness import NAMESPACE, NEW, OLD, Fleet
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("RO-FLEET")


class Intruder(LoopYielder):
    """Lets something happen the first time that a pass lets other tasks run: between its look and its writes."""

    def __init__(self, happen: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._happen: Callable[[], Awaitable[None]] | None = happen

    async def maybe_yield(self) -> None:
        happen, self._happen = self._happen, None
        if happen is not None:
            await happen()


async def test_what_another_manager_assigned_since_the_decision_is_not_assigned_again(
    tmp_path: Path,
) -> None:
    change = Change(ChangeKind.ROLLOUT, datetime(2026, 3, 1, tzinfo=UTC), OLD)
    theirs = format_assignment(
        ReleaseAssignment(rollout="release", version=NEW, spec_version=OLD, change=change)
    )
    async with Fleet.start(tmp_path, manager=False) as fleet:
        await fleet.create_instances(4)
        await fleet.roll_out(maxConcurrent=4)
        manager = make_manager(fleet.environment.config("manager"), name="rival")
        parts = make_parts(manager, CloudOptions(), SUBRESOURCES)
        instances = parts.store_of(Instance)
        rollouts = manager.cache.declare(FleetRollout).informer.store
        names = [f"production-{number}" for number in range(4)]

        def is_seen() -> bool:
            found = [instances.get(name, namespace=NAMESPACE) for name in names]
            return all(each and each.annotations.get(RELEASE_ASSIGNMENT) for each in found)

        async def another_manager_assigns() -> None:
            status = {"status": {"releaseAssignment": theirs}}
            patch = {"metadata": {"annotations": {RELEASE_ASSIGNMENT: theirs}}}
            for name in names:
                await fleet.client.patch_status(Instance, name, status, namespace=NAMESPACE)
                await fleet.client.patch(Instance, name, patch, namespace=NAMESPACE)
            await eventually(is_seen)

        async with manager.running():
            await eventually(lambda: rollouts.get("release", namespace=NAMESPACE))
            reconciler = FleetRolloutReconciler(
                fleet=FleetReader(rollouts, instances, yielder=Intruder(another_manager_assigns)),
                assigner=Assigner(parts.patcher, manager.recorder),
                metrics=RolloutMetrics(manager.metrics.registry),
                clock=utc_now,
                observed=ObservedClock(),
            )
            life = reconciler.lifecycle.reconciler(manager, field_manager="rival")
            await life.reconcile(Request("release", namespace=NAMESPACE))
        for name in names:
            found = await fleet.client.get(Instance, name, namespace=NAMESPACE)
            assert (found.metadata.annotations or {})[RELEASE_ASSIGNMENT] == theirs
            assert found.status.release_assignment == theirs
