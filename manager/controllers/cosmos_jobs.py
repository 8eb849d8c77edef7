"""The controller of StatefulJobs, wired to the runtime."""

from collections.abc import Iterable

from apis.cosmos import GROUP, StatefulJob
from ctrlruntime.cache import Entry, Informer
from ctrlruntime.controller import Builder, ControllerOptions
from ctrlruntime.controller.orphan_requests import OrphanRequests
from ctrlruntime.controller.predicates import more_than_own_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.lifecycle import Lifecycle
from ctrlruntime.queue import Request
from internal.cosmos.datasource import DataSources
from internal.cosmos.statefuljob.job_builder import JOB
from internal.cosmos.statefuljob.reconciler import JobReads, StatefulJobReconciler
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from manager.controllers.cosmos_parts import CLAIM, CosmosParts
from manager.controllers.cosmos_snapshots import SnapshotsServed, follow_definitions
from manager.controllers.cosmos_wiring import absence_of, enqueue_at_jumps

CONCURRENCY = 5
"""StatefulJobs worked on at once."""


def add_stateful_jobs(parts: CosmosParts) -> None:
    """Add the controller of StatefulJobs. Its clock is that of the options."""
    stateful_jobs, where = parts.manager.cache.declare(StatefulJob), parts.objects
    store = stateful_jobs.informer.store
    wakeups = RequestSource("the clock, and the hub")
    enqueue_at_jumps(parts, store, wakeups)

    def beside(entry: Entry) -> Iterable[Request]:
        """Whoever may wait for a snapshot."""
        here = store.by_index("namespace", entry.namespace)
        return [Request(each.name, namespace=each.namespace) for each in here]

    builder = (
        Builder(parts.manager)
        .sharded(cached_whole=True)
        .for_(StatefulJob, predicates=[more_than_own_status_changed])
        .watches_raw(wakeups)
        .explicit_permissions()
        .permission(GROUP, "statefuljobs/status", "patch")
        .permission(GROUP, "statefuljobs/finalizers", "update")  # as owner of Job and claim
        .permission(JOB.gvk.group, JOB.plural, "create", "delete", "get", "patch")
        .permission("", CLAIM.plural, "create", "delete", "patch")
        .options(ControllerOptions(max_concurrent_reconciles=CONCURRENCY))
    )
    if where.is_hub:
        builder.permission(GROUP, "statefuljobs", "patch")  # the finalizer
    for mapping in (JOB, CLAIM):
        where.watch_owned(builder, StatefulJob, mapping)
    where.watch(builder, VOLUME_SNAPSHOT, beside, optional=True)
    follow_definitions(builder, parts, store)
    informer = stateful_jobs.informer
    builder.build(parts.reconciler(_lifecycle(parts, informer), informer))


def _lifecycle(parts: CosmosParts, stateful_jobs: Informer) -> Lifecycle[StatefulJob]:
    where, store = parts.objects, stateful_jobs.store
    orphan_requests = OrphanRequests()
    stateful_jobs.add_handler(orphan_requests)
    return StatefulJobReconciler(
        reads=JobReads(
            jobs=where.declare_owned(JOB).informer.store,
            claims=parts.claims.informer.store,
            snapshots=parts.snapshots.informer.store,
            sources=DataSources(where.cache, where.live_client),
            is_served=SnapshotsServed.of(parts).is_served,
            is_gone=absence_of(where.live_client, JOB),
        ),
        control=where.control(store),
        recorder=parts.manager.recorder,
        clock=parts.options.clock.now,
        orphan_requests=orphan_requests,
        remote=where.view(),
    ).lifecycle
