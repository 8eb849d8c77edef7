"""The cloud system's controllers, wired to the runtime."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from apis.cloud import GROUP, Instance
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache.cache import InformerHandle
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import Event
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.intake import EventQueue
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.manager import Group, Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources import Control
from internal.cloud.concurrency import Ledger
from internal.cloud.concurrency.rebuild import LedgerKeeper
from internal.cloud.instance import bundles, domains
from internal.cloud.instance.bundles import Bundles
from internal.cloud.instance.children import OF_INSTANCE, Children, instances_of
from internal.cloud.instance.domains import Domains
from internal.cloud.instance.order import check_order
from internal.cloud.instance.quiet import Quiet
from internal.cloud.instance.reconciler import InstanceReconciler
from internal.cloud.instance.walk import Walk
from internal.cloud.marks import FIELD_MANAGER
from internal.cloud.records import Records
from internal.cloud.runs import RunOwner, RunProvider
from internal.cloud.subresource import Subresource
from internal.cloud.subresource_reconciler import SubresourceReconciler
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.taskdriver import Pace, TaskMetrics, Tools, shared
from internal.tenancy.children import entries_of
from internal.tenancy.wakeups import Wakeups, more_than_status_changed
from manager.controllers.runs import RunsOptions, make_provider

CONFIG_MAP: RESTMapping = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudOptions:
    """Options of the cloud system."""

    instance_concurrency: int = 20
    """Instances worked on at once."""
    subresource_concurrency: int = 10
    """Objects of one type of subresource worked on at once; no limit on runs."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """By task, runs at once; what is not named keeps its definition's. 0 is without limit."""
    starts_per_minute: Mapping[str, int] = field(default_factory=dict)
    """By task, starts in any 60 seconds; what is not named keeps its definition's. 0: no limit."""
    runs: RunsOptions = field(default_factory=RunsOptions)
    """Where runs execute."""
    pace: Pace = field(default_factory=Pace)
    """How long the driver waits for what."""

    def limited(self, subresources: Sequence[Subresource[Any]]) -> list[Subresource[Any]]:
        """The subresources with the limits that the options give them."""
        return [replace(item, definition=self._definition(item)) for item in subresources]

    def _definition(self, item: Subresource[Any]) -> Any:
        given, name = item.definition.concurrency, item.definition.name
        concurrency = replace(
            given,
            limit=self.limits.get(name, given.limit),
            starts_per_minute=self.starts_per_minute.get(name, given.starts_per_minute),
        )
        return replace(item.definition, concurrency=concurrency)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Parts:
    """What the controllers share."""

    manager: Manager
    options: CloudOptions
    subresources: Sequence[Subresource[Any]]
    instances: InformerHandle
    config_maps: InformerHandle
    kinds: Mapping[str, InformerHandle]
    """The informers of the subresources, by kind."""


def add_cloud(
    manager: Manager,
    options: CloudOptions,
    subresources: Sequence[Subresource[Any]] = SUBRESOURCES,
    provider: RunProvider | None = None,
) -> None:
    """Add the controllers of instances and their subresources to a manager. From within its loop.

    `provider` executes runs in place of the one that the options name; whoever made it closes it.
    Raises OrderError for subresources that cannot be carried out in the order given.
    """
    parts = make_parts(manager, options, subresources)
    add_instance_controller(parts)
    add_subresource_controllers(parts, provider)


def make_parts(
    manager: Manager, options: CloudOptions, subresources: Sequence[Subresource[Any]]
) -> Parts:
    """Declare what is read. Raises OrderError."""
    check_order(subresources)
    declare = manager.cache.declare
    instances = declare(
        Instance,
        indexes={domains.INDEX: domains.names_of, bundles.INDEX: bundles.config_maps_of},
    )
    instances.informer.store.add_index("uid", lambda entry: (entry.uid,))
    return Parts(
        manager=manager,
        options=options,
        subresources=options.limited(subresources),
        instances=instances,
        config_maps=declare(CONFIG_MAP, labels=bundles.SELECTOR),
        kinds={
            item.kind.gvk().kind: declare(
                item.kind, track_manager=FIELD_MANAGER, indexes={OF_INSTANCE: instances_of}
            )
            for item in subresources
        },
    )


# -- instances ------------------------------------------------------------------------------------


def add_instance_controller(parts: Parts) -> None:
    """The controller of instances alone; whoever else there is looks after their subresources."""
    cache, client = parts.manager.cache, parts.manager.client
    store = parts.instances.informer.store

    def alive(uid: str) -> bool:
        return bool(store.count("uid", uid))

    control = Control(cache, field_manager=FIELD_MANAGER, alive=alive)
    children = Children(cache, client, control)
    reconciler = InstanceReconciler(
        instances=store,
        client=client,
        subresources=parts.subresources,
        children=children,
        walk=Walk(parts.subresources, children),
        bundles=bundles_of(parts),
        records=Records(client, FIELD_MANAGER),
        conflict=Domains(store).conflict,
        clock=_now,
        quiet=Quiet(time.monotonic),
        recorder=parts.manager.recorder,
    )

    def shares_a_name(event: Event, queue: EventQueue) -> None:
        """Whoever wants a name that an instance had or has looks again."""
        names = {name for entry in entries_of(event) for name in domains.names_of(entry)}
        for name in names:
            _queue_all(store.by_index(domains.INDEX, name), queue)

    def bundle_changed(event: Event, queue: EventQueue) -> None:
        for entry in entries_of(event)[-1:]:
            key = f"{entry.namespace}/{entry.name}"
            _queue_all(store.by_index(bundles.INDEX, key), queue)

    def child_changed(event: Event, queue: EventQueue) -> None:
        keys = {key for entry in entries_of(event) for key in instances_of(entry)}
        for key in sorted(keys):
            namespace, _, name = key.partition("/")
            queue.add(Request(namespace, name))

    builder = (
        Builder(parts.manager)
        .for_(Instance, predicates=[more_than_status_changed])
        .watches(Instance, shares_a_name, predicates=[names_changed])
        .watches(CONFIG_MAP, bundle_changed, labels=bundles.SELECTOR)
        .declares_writes()
        .permission(GROUP, "instances", "patch", "delete")  # finalizers, ends of leases
        .permission(GROUP, "instances/status", "patch")
        .permission(GROUP, "instances/finalizers", "update")  # as owner of its subresources
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.instance_concurrency))
    )
    for item in parts.subresources:
        builder.watches(item.kind, child_changed)
        plural = item.kind.mapping().plural
        builder.permission(GROUP, plural, "create", "delete", "patch")
    builder.build(reconciler)


def bundles_of(parts: Parts) -> Bundles:
    """The ConfigMaps that workloads are made from."""
    return Bundles(parts.config_maps.informer.store)


def names_changed(event: Event) -> bool:
    """Predicate: only what changes who has which name."""
    names = [domains.names_of(entry) for entry in entries_of(event)]
    return len(names) != 2 or names[0] != names[1]


def _queue_all(entries: Sequence[Entry], queue: EventQueue) -> None:
    for entry in entries:
        queue.add(Request(entry.namespace, entry.name))


# -- subresources ---------------------------------------------------------------------------------


def add_subresource_controllers(parts: Parts, provider: RunProvider | None = None) -> None:
    """One controller for each type, with one ledger and one provider of runs for all."""
    wakeups = {kind: Wakeups(f"runs of {kind}") for kind in parts.kinds}

    def wake(owner: RunOwner) -> None:
        wakeup = wakeups.get(owner.kind)
        if wakeup is not None:
            wakeup.wake(Request(owner.namespace, owner.name), "its run or its turn")

    manager, options = parts.manager, parts.options
    own = provider is None
    runs = provider or make_provider(options.runs, manager)
    ledger = Ledger(_now, wake)
    metrics = TaskMetrics(manager.metrics.registry)
    keeper = LedgerKeeper(
        ledger=ledger,
        client=manager.live_client,
        subresources=parts.subresources,
        clock=_now,
        wake=wake,
        gone=metrics.forget,
        namespaces=manager.options.namespaces or (),
    )
    tools = Tools(
        client=manager.client,
        open_runs=shared(runs),
        limiter=ledger,
        recorder=manager.recorder,
        metrics=metrics,
        fence=manager.fence,
        tracing=manager.tracing,
        told=runs.subscribe(wake),
        pace=options.pace,
    )
    for item in parts.subresources:
        informer = parts.kinds[item.kind.gvk().kind].informer
        informer.add_handler(partial(keeper.observe, item))
        reconciler = SubresourceReconciler(
            item, tools, ready=keeper.ready, config_map=bundles_of(parts).texts
        )
        _add_subresource_controller(parts, item, reconciler, wakeups[item.kind.gvk().kind])
    if own:
        manager.add(_Closing(runs))


def _add_subresource_controller(
    parts: Parts,
    item: Subresource[Any],
    reconciler: SubresourceReconciler[Any],
    wakeups: Wakeups,
) -> None:
    mapping = item.kind.mapping()
    plural = mapping.plural
    store = parts.kinds[mapping.gvk.kind].informer.store

    def instance_changed(event: Event, queue: EventQueue) -> None:
        """Paused, resumed, extracted, given back, gone: what it has of this kind looks again."""
        for entry in entries_of(event)[-1:]:
            _queue_all(store.by_index(OF_INSTANCE, f"{entry.namespace}/{entry.name}"), queue)

    builder = (
        Builder(parts.manager)
        .for_(item.kind, predicates=[more_than_status_changed])
        .watches(Instance, instance_changed, predicates=[steering_changed])
        .watches_source(wakeups)
        .declares_writes()
        .permission(GROUP, plural, "patch")  # finalizers
        .permission(GROUP, f"{plural}/status", "patch")
        .permission(GROUP, f"{plural}/finalizers", "update")  # as owner of its runs and outputs
        .permission("", "secrets", "get", "create", "patch", "delete")  # outputs not to be seen
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.subresource_concurrency))
    )
    for group, kind, verbs in parts.options.runs.permissions():
        builder.permission(group, kind, *verbs)
    builder.build(reconciler)


def steering_changed(event: Event) -> bool:
    """Predicate: an instance that comes or goes, or whose annotations or spec change: its spec says
    whether it is protected from deletion."""
    told = [
        (entry.uid, entry.annotations, entry.deletion_timestamp, entry.generation)
        for entry in entries_of(event)
    ]
    return len(told) != 2 or told[0] != told[1]


@dataclass(slots=True)
class _Closing:
    """Gives back the provider's connections after the controllers have ended. Runs go on."""

    runnable_group = Group.CACHES

    provider: RunProvider

    async def start(self) -> None:
        """Runs until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.provider.aclose()
