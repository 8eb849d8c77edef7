"""The cloud system's controllers, wired to the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from apis.cloud import (
    GROUP,
    Instance,
    InstanceInvariants,
    InstanceKubernetes,
    TaskStatus,
    UpgradeInstanceTask,
)
from apis.operations import FrozenSystem
from ctrlruntime.api import BUILTIN, GroupVersionKind, Resource, RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.controller import Builder, ControllerOptions, Reconciler
from ctrlruntime.controller.debounce import Debounce
from ctrlruntime.controller.predicates import more_than_own_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources import Control
from ctrlruntime.rollout import ChangeHolds
from internal.approvals.counted import CountedEntries
from internal.approvals.key import ApprovalKey
from internal.cloud.approvals import INSTANCE as INSTANCE_APPROVALS
from internal.cloud.approvals import SUBRESOURCE as SUBRESOURCE_APPROVALS
from internal.cloud.concurrency import ConcurrencyChecker, ConcurrencyLimiter
from internal.cloud.concurrency.grants import GrantsInStatus
from internal.cloud.concurrency.rebuild import LedgerKeeper
from internal.cloud.instance import bundles
from internal.cloud.instance.children import OF_INSTANCE, Children
from internal.cloud.instance.deletion import TeardownGuard
from internal.cloud.instance.domains import Domains
from internal.cloud.instance.lease_end import LeaseEnds
from internal.cloud.instance.metrics import InstanceMetrics
from internal.cloud.instance.reading import Preconditions
from internal.cloud.instance.reconciler import InstanceReconciler
from internal.cloud.instance.teardown import Teardown
from internal.cloud.instance.upgrades import Upgrade, upgrade_of
from internal.cloud.instance.walk import Walk
from internal.cloud.instance.writer import InstanceWriter
from internal.cloud.labels import FIELD_MANAGER, INSTANCE
from internal.cloud.pauses import INSTANCE_PAUSES, subresource_pauses
from internal.cloud.runs import RunProvider
from internal.cloud.subresource import Subresource
from internal.cloud.subresource_reconciler import SubresourceReconciler, TaskReads
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.taskdriver import TaskMetrics, Tools, shared
from internal.cloud.taskdriver.inputs import instance_name, typed
from internal.cloud.taskdriver.writes import SECRET, RunCluster
from internal.cloud.workload_drift import WorkloadDrift
from internal.operations.freezes import SystemFreezes
from manager.controllers.approvals import Approvals, Whole, add_approvals, approval_key, view_of
from manager.controllers.change_freezes import Divided, add_change_freezes
from manager.controllers.closing import Closing
from manager.controllers.cloud_options import CloudOptions
from manager.controllers.cloud_parts import CONFIG_MAP, CloudParts, make_parts
from manager.controllers.cloud_rollouts import add_rollout_controller
from manager.controllers.cloud_slots import (
    add_granters,
    ended_lease,
    forget_parts,
    frozen_run,
    has_lease,
    requests_of,
    slot_of_parts,
)
from manager.controllers.cloud_watches import (
    InstanceHandlers,
    Wakeups,
    control_changed,
    crd_changed,
    defines,
    instance_changed,
    name_holder_changed,
    names_changed,
    outputs_changed,
    upgraded_to,
)
from manager.controllers.error_status import with_error_status
from manager.controllers.runs import make_provider, plugin_of
from manager.controllers.slot_memory import forget_with_slots
from manager.controllers.slot_owners import add_slot_owners
from manager.controllers.task_settings import SettingsFile
from manager.controllers.terraform_types import types_file

if TYPE_CHECKING:
    from manager.controllers.hub import Hub

CRD: RESTMapping = BUILTIN[
    GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
]

WORKLOAD_KINDS = (
    ("", "configmaps"),
    ("", "persistentvolumeclaims"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
)
"""Kinds of workloads in the manager's own cluster that it may watch for drift, as metadata."""
STATUS_DEBOUNCE = 5.0
"""Seconds that the status of an instance waits for its subresources to report on new inputs."""


def add_cloud(
    manager: Manager,
    options: CloudOptions,
    subresources: Sequence[Subresource[Any]] = SUBRESOURCES,
    provider: RunProvider | None = None,
    hub: Hub | None = None,
    webhooks: bool = False,
) -> None:
    """Add the controllers of instances and their subresources to a manager. From within its loop.

    `provider` executes runs in place of the one that the options name; whoever made it closes it.
    `hub`: where runs are, if the manager's own cluster is a data plane. `webhooks`: whether this manager
    records who gives approvals. Raises OrderError for subresources that cannot be carried out in the order given.
    """
    parts = make_parts(manager, options, subresources, hub)
    divided = [Divided(parts.instances, ended_lease, may=has_lease)]
    divided += [Divided(parts.handle_of(item.kind), frozen_run) for item in parts.subresources]
    shared = [] if manager.shards is None else divided
    freezes = add_change_freezes(manager, FrozenSystem.CLOUD, divided=shared)
    key = approval_key(manager) if webhooks else None
    add_instance_controller(parts, freezes, key)
    add_subresource_controllers(parts, freezes, provider, key)
    add_rollout_controller(parts, freezes, key=key)
    add_slot_owners(
        manager,
        Instance,
        parts.store_of(Instance),
        parts.patcher,
        clock=utc_now,
        noun="instance",
        effect="Nothing of this instance is changed, and no run of it begins; those under way go on.",
    )


# -- instances ------------------------------------------------------------------------------------


def add_instance_controller(
    parts: CloudParts, freezes: SystemFreezes, key: ApprovalKey | None = None
) -> None:
    """Add the controller of instances alone; their subresources are another's."""
    counts = InstanceMetrics(parts.manager.metrics.registry, parts.store_of(Instance))
    parts.instances.informer.add_handler(counts.observe)
    parts.manager.add(counts)
    parts.instances.informer.add_handler(freezes.object_changed)
    approvals = add_approvals(parts.manager, Instance, INSTANCE_APPROVALS, key, divided=True)
    handlers = InstanceHandlers(parts.store_of(Instance))
    builder = (
        _builder_of(parts, Instance)
        .watches(Instance, handlers.name_changed, predicates=[names_changed])
        .watches(CONFIG_MAP, handlers.bundle_changed, labels=bundles.SELECTOR)
        .permission(GROUP, "instances", "delete")  # ends of leases
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.instance_concurrency))
    )
    for item in parts.subresources:
        builder.watches(item.kind, handlers.child_changed)
        builder.permission(GROUP, item.kind.mapping().plural, "create", "delete", "patch")
    thawed = RequestSource("freezes of instances")
    holds = freezes.holder(partial(thawed.enqueue, reason="a freeze began or ended"), divided=True)
    builder.watches_raw(thawed).watches_raw(_terraform_types(parts))
    builder.watches_raw(approvals.wakeups)
    if parts.hub is not None:
        parts.objects.watch_owned(builder, Instance, CONFIG_MAP, metadata_only=True)
        builder.watches_raw(_hub_changes(parts, Instance))
    reconciler = _instance_reconciler(parts, holds, approvals.entries)
    builder.build(_guarded(parts, reconciler, Instance))
    kept = partial(requests_of, parts.store_of(Instance))
    forget_with_slots(parts.manager, kept, reconciler.forget)


def _hub_changes(parts: CloudParts, kind: type[Resource[Any, Any]]) -> RequestSource:
    """Return a source of all objects of a kind: the hub answers no longer, or again."""
    source, store = RequestSource("the hub"), parts.store_of(kind)

    def enqueue_all() -> None:
        for entry in store:
            request = Request(entry.name, namespace=entry.namespace)
            source.enqueue(request, "the hub answers no longer, or again")

    parts.objects.subscribe(enqueue_all)
    return source


def _terraform_types(parts: CloudParts) -> RequestSource:
    """Return a source of the instances whose type of infrastructure changed."""
    manager, path = parts.manager, parts.options.terraform_types_file
    source = RequestSource("types of infrastructure")
    if path is not None:
        enqueue = partial(source.enqueue, reason="its type of infrastructure changed")
        store, registry = parts.store_of(Instance), manager.metrics.registry
        period = parts.options.file_period
        manager.add(types_file(path, parts.types, store, enqueue, registry, period))
    return source


def _instance_reconciler(
    parts: CloudParts, holds: ChangeHolds, instances: CountedEntries
) -> InstanceReconciler:
    manager, store = parts.manager, parts.store_of(Instance)
    control = _control_of(parts, Instance)
    walk = Walk(parts.subresources, Children(manager.cache, manager.client, control), parts.types)
    debounce = Debounce(monotonic, STATUS_DEBOUNCE)
    writer = InstanceWriter(parts.patcher, manager.recorder, debounce, utc_now)
    return InstanceReconciler(
        instances=instances,
        preconditions=Preconditions(Domains(store).conflict, parts.bundles, parts.types),
        walk=walk,
        lease_ends=LeaseEnds(manager.client, utc_now, holds),
        teardown=Teardown(
            walk,
            parts.crds,
            writer,
            TeardownGuard(parts.patcher, utc_now),
            partial(_counted_part, parts, instances),
            parts.hub,
        ),
        writer=writer,
        hub=parts.hub,
    )


# -- subresources ---------------------------------------------------------------------------------


def add_subresource_controllers(
    parts: CloudParts,
    freezes: SystemFreezes,
    provider: RunProvider | None = None,
    key: ApprovalKey | None = None,
) -> None:
    """Add one controller for each type, with one limiter and one provider of runs for all."""
    manager, options, wakeups = parts.manager, parts.options, Wakeups.of(parts)
    runs = provider or make_provider(options.runs, manager, parts.objects)
    shares, places = manager.shards is not None, Wakeups.of(parts)
    ledger = ConcurrencyLimiter(utc_now, (places if shares else wakeups).wake)
    limiter: ConcurrencyChecker = GrantsInStatus() if shares else ledger
    metrics = TaskMetrics(manager.metrics.registry)
    keeper = _ledger_keeper(parts, ledger, metrics, wakeups)
    drift = _workload_drift(parts, wakeups)
    tools = _tools(parts, runs, limiter, metrics, wakeups)
    for item in parts.subresources:
        parts.handle_of(item.kind).informer.add_handler(partial(keeper.observe, item))
        source = wakeups.sources[item.kind.gvk().kind]
        holds = freezes.holder(
            partial(source.enqueue, reason="a freeze began or ended"), divided=True
        )
        approvals = _approvals_of_part(parts, item, key)
        _add_subresource_controller(parts, item, tools, keeper, wakeups, holds, drift, approvals)
        forget_parts(parts, item, holds, metrics)
    if shares:
        add_granters(parts, keeper, places.sources, wakeups)
    if provider is None:
        manager.add(Closing(runs.aclose))
    if options.settings_file is not None:
        registry = manager.metrics.registry

        def changed(tasks: list[str]) -> None:
            wakeups.settings_changed(tasks)
            if shares:  # a higher limit is the leader's to grant
                places.settings_changed(tasks)

        manager.add(
            SettingsFile(
                options.settings_file, parts.definitions, changed, registry, options.file_period
            )
        )


def _ledger_keeper(
    parts: CloudParts, limiter: ConcurrencyLimiter, metrics: TaskMetrics, wakeups: Wakeups
) -> LedgerKeeper:
    return LedgerKeeper(
        ledger=limiter,
        client=parts.manager.live_client,
        subresources=parts.subresources,
        crds=parts.crds,
        definition_of=lambda item: parts.definitions(item.definition.name),
        clock=utc_now,
        wake=wakeups.wake,
        gone=metrics.forget,
        namespaces=parts.manager.options.namespaces or (),
        grants=parts.manager.shards is not None,
    )


def _tools(
    parts: CloudParts,
    runs: RunProvider,
    limiter: ConcurrencyChecker,
    metrics: TaskMetrics,
    wakeups: Wakeups,
) -> Tools:
    manager = parts.manager
    return Tools(
        patcher=parts.patcher,
        client=manager.client,
        open_runs=shared(runs),
        limiter=limiter,
        recorder=manager.recorder,
        metrics=metrics,
        fence=manager.fence,
        tracing=manager.tracing,
        told=runs.subscribe(wakeups.wake),
        clock=parts.options.clock,
        pace=parts.options.pace,
        run_cluster=RunCluster(client=parts.objects.live_client, placement=parts.objects.placement),
    )


def _counted_part(
    parts: CloudParts, instances: CountedEntries, item: Subresource[Any], entry: Entry
) -> Entry:
    """Return a subresource with the approvals that count."""
    recorder, whole = instances.view.recorder, _whole(parts, item)
    return view_of(item.kind, SUBRESOURCE_APPROVALS, recorder, whole).counted(entry)


def _approvals_of_part(
    parts: CloudParts, item: Subresource[Any], key: ApprovalKey | None
) -> Approvals:
    """Record and report approvals of a subresource, which need those whom its instance names."""
    whole = _whole(parts, item)
    slot = slot_of_parts(parts.store_of(item.kind))
    return add_approvals(
        parts.manager, item.kind, SUBRESOURCE_APPROVALS, key, whole, divided=True, slot=slot
    )


def _whole(parts: CloudParts, item: Subresource[Any]) -> Whole:
    instances = parts.store_of(Instance)

    def instance_of(entry: Entry) -> Entry | None:
        try:
            name = instance_name(entry.typed(item.kind))
        except ValidationError:
            name = entry.labels.get(INSTANCE, "")
        return instances.get(name, namespace=entry.namespace)

    changed = instance_changed(parts.store_of(item.kind))
    return Whole(Instance, INSTANCE_APPROVALS, instance_of, changed)


def _invariants_of(parts: CloudParts, instance: Entry) -> TaskStatus | None:
    """Return the status of an instance's invariants."""
    found = parts.store_of(InstanceInvariants).get(instance.name, namespace=instance.namespace)
    read = None if found is None else typed(InstanceInvariants, found.decode())
    return None if read is None else read.status


def _upgrades_of(parts: CloudParts, instance: Entry, version: str) -> list[Upgrade]:
    """Return the upgrades of an instance that can be read; none unless one began at the version."""
    key = f"{instance.namespace}/{instance.name}"
    found = parts.store_of(UpgradeInstanceTask).by_index(OF_INSTANCE, key)
    if not any((each.field("spec") or {}).get("fromVersion") == version for each in found):
        return []
    own = (each for each in found if each.controller and each.controller.uid == instance.uid)
    read = (typed(UpgradeInstanceTask, each.decode()) for each in own)
    return [upgrade_of(each) for each in read if each is not None]


def _add_subresource_controller(
    parts: CloudParts,
    item: Subresource[Any],
    tools: Tools,
    keeper: LedgerKeeper,
    wakeups: Wakeups,
    holds: ChangeHolds,
    drift: WorkloadDrift,
    approvals: Approvals,
) -> None:
    follows = item.deploys_version and UpgradeInstanceTask.gvk().kind in parts.kinds
    reads = _task_reads(parts, item, drift, approvals)
    if follows:
        reads = replace(reads, upgrades=partial(_upgrades_of, parts))
    reconciler = SubresourceReconciler(
        item,
        tools,
        reads,
        holds=holds,
        control=parts.objects.control(parts.store_of(item.kind)),
        hub=parts.hub,
    )
    if not keeper.grants:
        reconciler.ready = keeper.ready
    queue_own = instance_changed(parts.store_of(item.kind))
    builder = (
        _builder_of(parts, item.kind)
        .watches(Instance, queue_own, predicates=[control_changed])
        .watches_raw(wakeups.sources[item.kind.gvk().kind])
        .watches_raw(approvals.wakeups)
        .watches(
            SECRET,
            outputs_changed(item.kind.mapping()),
            labels=INSTANCE,
            metadata_only=True,
            track_manager=FIELD_MANAGER,
            cluster=parts.objects.watched,
        )
        .permission("", "secrets", "get", "create", "patch", "delete")  # outputs not to be seen
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.subresource_concurrency))
    )
    if parts.hub is not None:
        builder.watches_raw(_hub_changes(parts, item.kind))
        parts.objects.watch(
            builder, CONFIG_MAP, name_holder_changed(parts.store_of(item.kind)), labels=INSTANCE
        )
    for group, plural, verbs in plugin_of(parts.options.runs.provider).permissions:
        builder.permission(group, plural, *verbs)
    if item.kind is InstanceKubernetes:
        for group, plural in WORKLOAD_KINDS:
            builder.permission(group, plural, "list", "watch")
    if follows:
        builder.watches(UpgradeInstanceTask, upgraded_to(parts.store_of(item.kind)))
    builder.build(_guarded(parts, reconciler, item.kind))


def _task_reads(
    parts: CloudParts, item: Subresource[Any], drift: WorkloadDrift, approvals: Approvals
) -> TaskReads[Any]:
    task = partial(parts.definitions, item.definition.name)
    reads: TaskReads[Any] = TaskReads(
        parts.crds, task, parts.bundles.texts, approvals.instance, approvals.view.counted
    )
    if item.kind is InstanceKubernetes:
        reads = replace(reads, drift=drift.of)
    if InstanceInvariants.gvk().kind in parts.kinds:
        reads = replace(reads, last=partial(_invariants_of, parts))
    return reads


def _workload_drift(parts: CloudParts, wakeups: Wakeups) -> WorkloadDrift:
    manager, source = parts.manager, wakeups.sources.get(InstanceKubernetes.gvk().kind)

    def wake(request: Request) -> None:
        if source is not None:
            source.enqueue(request, "its workload changed")

    drift = WorkloadDrift(
        cache=parts.objects.cache,
        inventories=parts.inventories.informer.store,
        resolve=parts.objects.live_client.mapper.resolve,
        wake=wake,
    )
    parts.inventories.informer.add_handler(drift.inventory_changed)
    manager.add(Closing(drift.close))
    return drift


# -- all ------------------------------------------------------------------------------------------


def _control_of(parts: CloudParts, owners: type[Resource[Any, Any]]) -> Control:
    """Return a control of what objects of a kind own."""
    store = parts.store_of(owners)
    return Control(
        parts.manager.cluster,
        field_manager=FIELD_MANAGER,
        alive=lambda uid: bool(store.count("uid", uid)),
    )


def _builder_of(parts: CloudParts, kind: type[Resource[Any, Any]]) -> Builder:
    """Begin a controller of instances or subresources: what all of them watch and may write."""
    plural = kind.mapping().plural
    slot = None if kind is Instance else slot_of_parts(parts.store_of(kind))
    return (
        Builder(parts.manager)
        .sharded(slot=slot, cached_whole=True)
        .for_(kind, predicates=[more_than_own_status_changed])
        .watches(
            CRD,
            crd_changed(parts.manager.cache, parts.store_of(kind)),
            metadata_only=True,
            predicates=[defines(kind, Instance)],
        )
        .explicit_permissions()
        .permission(GROUP, plural, "patch")  # finalizers
        .permission(GROUP, f"{plural}/status", "patch")
        .permission(GROUP, f"{plural}/finalizers", "update")  # as owner of what is made for it
    )


def _guarded(
    parts: CloudParts, reconciler: Reconciler, kind: type[Resource[Any, Any]]
) -> Reconciler:
    of_parts = subresource_pauses(parts.store_of(Instance))
    return with_error_status(
        parts.manager,
        reconciler,
        parts.store_of(kind),
        kind.mapping(),
        field_manager=FIELD_MANAGER,
        pauses=INSTANCE_PAUSES if kind is Instance else of_parts,
    )
