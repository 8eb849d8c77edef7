"""The controller of StatefulJobs, wired to the runtime."""

from collections.abc import Iterable

from apis.cosmos import GROUP, StatefulJob
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.store import Store
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.handlers import enqueue_map_func
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.controller.predicates import more_than_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.queue import Request
from internal.cosmos.datasource import DataSources
from internal.cosmos.labels import FIELD_MANAGER
from internal.cosmos.statefuljob.job_builder import JOB
from internal.cosmos.statefuljob.reconciler import JobReads, StatefulJobReconciler
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from manager.controllers.cosmos_parts import (
    CLAIM,
    OF_OWNER,
    OURS,
    SELECTED,
    CosmosParts,
    control_of,
    owner_index,
)
from manager.controllers.cosmos_snapshots import CRD, defines_snapshots, is_served
from manager.controllers.cosmos_wiring import (
    absence_of,
    enqueue_at_clock_jumps,
    enqueue_at_definitions,
    guarded,
)

CONCURRENCY = 5
"""StatefulJobs worked on at once."""


def add_stateful_jobs(parts: CosmosParts) -> None:
    """Add the controller of StatefulJobs. Its clock is that of the options."""
    store = parts.manager.cache.declare(StatefulJob).informer.store
    wakeups = RequestSource("the clock")
    enqueue_at_clock_jumps(parts, store, wakeups)

    def beside(entry: Entry) -> Iterable[Request]:
        """Whoever may wait for a snapshot."""
        here = store.by_index("namespace", entry.namespace)
        return [Request(each.name, namespace=each.namespace) for each in here]

    definition_changed = enqueue_at_definitions(parts.manager, store)
    (
        Builder(parts.manager)
        .for_(StatefulJob, predicates=[more_than_status_changed])
        .owns(JOB, labels=SELECTED, track_manager=FIELD_MANAGER)
        .owns(CLAIM, labels=SELECTED, track_manager=FIELD_MANAGER)
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
        .build(guarded(parts, _reconciler(parts, store), store, StatefulJob))
    )


def _reconciler(parts: CosmosParts, store: Store) -> StatefulJobReconciler:
    manager = parts.manager
    definitions = manager.cache.declare(CRD, metadata_only=True)
    jobs = manager.cache.declare(
        JOB, labels=OURS, track_manager=FIELD_MANAGER, indexes={OF_OWNER: owner_index}
    )
    return StatefulJobReconciler(
        reads=JobReads(
            stateful_jobs=store,
            jobs=jobs.informer.store,
            claims=parts.claims.informer.store,
            snapshots=parts.snapshots.informer.store,
            sources=DataSources(manager.cache, manager.live_client),
            is_served=lambda: is_served(parts, definitions),
            is_gone=absence_of(manager, JOB),
        ),
        control=control_of(manager, store),
        patcher=parts.patcher,
        recorder=manager.recorder,
        clock=parts.options.clock.now,
    )
