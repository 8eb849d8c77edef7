"""The controller of FleetRollouts, wired to the runtime."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from apis.cloud import GROUP, FleetRollout, Instance
from ctrlruntime.cache import Event, Store
from ctrlruntime.clock import utc_now
from ctrlruntime.controller import Builder, ControllerOptions
from ctrlruntime.controller.event_dispatch import EventQueue, Handler
from ctrlruntime.controller.predicates import entries_of, more_than_own_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.queue import Request
from ctrlruntime.rollout import ObservedClock
from internal.approvals.key import ApprovalKey
from internal.cloud.approvals import ROLLOUT
from internal.cloud.labels import FIELD_MANAGER
from internal.cloud.rollouts.assigner import Assigner
from internal.cloud.rollouts.fleet_reader import FleetReader
from internal.cloud.rollouts.metrics import RolloutMetrics
from internal.cloud.rollouts.reconciler import FleetRolloutReconciler
from internal.operations.freezes import SystemFreezes
from manager.controllers.approvals import add_approvals
from manager.controllers.cloud_parts import CloudParts
from manager.controllers.health_checks import add_health_checks

COALESCE = 0.5
"""Seconds between the change of an instance and the pass of its rollouts, which sees those that follow too."""


def add_rollout_controller(
    parts: CloudParts,
    freezes: SystemFreezes,
    clock: Callable[[], datetime] = utc_now,
    key: ApprovalKey | None = None,
) -> None:
    """Add the controller of FleetRollouts. `key`: of the records of approvals; None: none is recorded."""
    manager = parts.manager
    approvals = add_approvals(manager, FleetRollout, ROLLOUT, key)
    informer = manager.cache.declare(FleetRollout).informer
    informer.add_handler(freezes.object_changed)
    rollouts = informer.store
    thawed = RequestSource("freezes of rollouts")
    holds = freezes.holder(
        partial(thawed.enqueue, reason="a freeze began or ended"),
        lambda: [Request(item.name, namespace=item.namespace) for item in rollouts],
    )
    judged = RequestSource("health checks of rollouts")
    reconciler = FleetRolloutReconciler(
        fleet=FleetReader(rollouts, parts.store_of(Instance), approvals.view.counted),
        assigner=Assigner(parts.patcher, manager.recorder),
        metrics=RolloutMetrics(manager.metrics.registry),
        clock=clock,
        observed=ObservedClock.of(clock),
        holds=holds,
        checks=add_health_checks(
            manager,
            parts.options.health_checks,
            partial(judged.enqueue, reason="a health check has a result"),
            clock,
        ),
    )
    (
        Builder(manager)
        .for_(FleetRollout, predicates=[more_than_own_status_changed])
        .watches(
            FleetRollout, _neighbours(rollouts, 0.0), predicates=[more_than_own_status_changed]
        )
        .watches(Instance, _neighbours(rollouts, COALESCE))
        .watches_raw(thawed)
        .watches_raw(approvals.wakeups)
        .watches_raw(judged)
        .explicit_permissions()
        .permission(GROUP, "fleetrollouts/status", "patch")
        .permission(GROUP, "instances", "patch")  # assignments
        .permission(GROUP, "instances/status", "patch")  # their record
        .options(ControllerOptions(max_concurrent_reconciles=1))  # one may take from another
        .build(
            reconciler.lifecycle.reconciler(manager, informer=informer, field_manager=FIELD_MANAGER)
        )
    )


def _neighbours(rollouts: Store, after: float) -> Handler:
    """Return a handler that queues the rollouts of an object's namespace."""

    def queue_rollouts(event: Event, queue: EventQueue) -> None:
        for entry in entries_of(event)[-1:]:
            for rollout in rollouts.by_index("namespace", entry.namespace):
                queue.add(Request(rollout.name, namespace=rollout.namespace), after=after)

    return queue_rollouts
