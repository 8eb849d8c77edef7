"""The controller of StatefulJobs, wired to the runtime."""

from collections.abc import Iterable

from apis.cosmos import GROUP, StatefulJob
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import DeleteEvent, Event
from ctrlruntime.client.errors import NotFound
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.event_dispatch import EventQueue
from ctrlruntime.controller.handlers import enqueue_map_func
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.controller.predicates import more_than_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.queue import Request
from ctrlruntime.resources import Control
from internal.cosmos.datasource import DataSources
from internal.cosmos.labels import FIELD_MANAGER
from internal.cosmos.statefuljob.job_builder import JOB
from internal.cosmos.statefuljob.reconciler import JobReads, StatefulJobReconciler
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from manager.controllers.cosmos_parts import (
    CLAIM,
    OF_OWNER,
    OURS,
    CosmosParts,
    owner_index,
)
from manager.controllers.cosmos_snapshots import CRD, defines_snapshots, is_served
from manager.controllers.error_status import with_error_status

CONCURRENCY = 5
"""StatefulJobs worked on at once."""


def add_stateful_jobs(parts: CosmosParts) -> None:
    """Add the controller of StatefulJobs. Its clock is that of the options."""
    manager = parts.manager
    stateful_jobs = manager.cache.declare(StatefulJob)
    definitions = manager.cache.declare(CRD, metadata_only=True)
    jobs = manager.cache.declare(
        JOB, labels=OURS, track_manager=FIELD_MANAGER, indexes={OF_OWNER: owner_index}
    )
    store = stateful_jobs.informer.store
    store.add_index("uid", lambda entry: (entry.uid,))
    control = Control(
        manager.cache, field_manager=FIELD_MANAGER, alive=lambda uid: bool(store.count("uid", uid))
    )

    async def is_gone(namespace: str, name: str) -> bool:
        try:
            await manager.live_client.get(JOB, name, namespace=namespace, metadata_only=True)
        except NotFound:
            return True
        return False

    reconciler = StatefulJobReconciler(
        reads=JobReads(
            stateful_jobs=store,
            jobs=jobs.informer.store,
            claims=parts.claims.informer.store,
            snapshots=parts.snapshots.informer.store,
            sources=DataSources(manager.cache, manager.live_client),
            is_served=lambda: is_served(parts, definitions),
            is_gone=is_gone,
        ),
        control=control,
        patcher=parts.patcher,
        recorder=manager.recorder,
        clock=parts.options.clock.now,
    )
    wakeups = RequestSource("the clock")

    def clock_jumped() -> None:
        for namespace, name in list(store.keys()):
            wakeups.enqueue(Request(name, namespace=namespace), "the clock jumped")

    parts.options.clock.subscribe(clock_jumped)

    def beside(entry: Entry) -> Iterable[Request]:
        """Whoever may wait for a snapshot."""
        here = store.by_index("namespace", entry.namespace)
        return [Request(each.name, namespace=each.namespace) for each in here]

    def definition_changed(event: Event, queue: EventQueue) -> None:
        removed = event.old.name if isinstance(event, DeleteEvent) else ""
        parts.manager.cache.notify_discovery_changed(removed=removed)
        for namespace, name in list(store.keys()):
            queue.add(Request(name, namespace=namespace))

    labels = ",".join(f"{key}={value}" for key, value in OURS.items())
    (
        Builder(manager)
        .for_(StatefulJob, predicates=[more_than_status_changed])
        .owns(JOB, labels=labels, track_manager=FIELD_MANAGER)
        .owns(CLAIM, labels=labels, track_manager=FIELD_MANAGER)
        .watches(
            VOLUME_SNAPSHOT, enqueue_map_func(beside), track_manager=FIELD_MANAGER, optional=True
        )
        .watches(CRD, definition_changed, metadata_only=True, predicates=[defines_snapshots])
        .watches_raw(wakeups)
        .explicit_permissions()
        .permission(GROUP, "statefuljobs/status", "patch")
        .permission(GROUP, "statefuljobs/finalizers", "update")  # as owner of Job and claim
        .permission(JOB.gvk.group, JOB.plural, "create", "delete", "get", "patch")
        .permission("", CLAIM.plural, "create", "delete", "patch")
        .options(ControllerOptions(max_concurrent_reconciles=CONCURRENCY))
        .build(
            with_error_status(
                parts.manager,
                reconciler,
                store,
                StatefulJob.mapping(),
                field_manager=FIELD_MANAGER,
                clock=parts.options.clock.now,
            )
        )
    )
