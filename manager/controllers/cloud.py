"""The cloud system's controllers, wired to the runtime."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources import Control
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
from internal.cloud.subresource import Subresource
from internal.cloud.subresources import SUBRESOURCES
from internal.tenancy.children import entries_of
from internal.tenancy.wakeups import more_than_status_changed

CONFIG_MAP: RESTMapping = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudOptions:
    """Options of the cloud system."""

    instance_concurrency: int = 10
    """Instances worked on at once."""


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
    kinds: Sequence[InformerHandle] = field(default_factory=tuple)


def add_cloud(
    manager: Manager,
    options: CloudOptions,
    subresources: Sequence[Subresource[Any]] = SUBRESOURCES,
) -> None:
    """Add the controllers of instances and their subresources to a manager.

    Raises OrderError for subresources that cannot be carried out in the order given.
    """
    parts = make_parts(manager, options, subresources)
    add_instance_controller(parts)


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
        subresources=subresources,
        instances=instances,
        config_maps=declare(CONFIG_MAP, labels=bundles.SELECTOR),
        kinds=[
            declare(item.kind, track_manager=FIELD_MANAGER, indexes={OF_INSTANCE: instances_of})
            for item in subresources
        ],
    )


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
        bundles=Bundles(parts.config_maps.informer.store),
        records=Records(client, FIELD_MANAGER),
        conflict=Domains(store).conflict,
        clock=_now,
        quiet=Quiet(time.monotonic),
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
        .permission(GROUP, "instances", "patch", "delete")  # finalizers, the end of a lease
        .permission(GROUP, "instances/status", "patch")
        .permission(GROUP, "instances/finalizers", "update")  # as owner of its subresources
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.instance_concurrency))
    )
    for item in parts.subresources:
        plural = item.kind.mapping().plural
        builder.watches(item.kind, child_changed)
        builder.permission(GROUP, plural, "create", "delete", "patch")
    builder.build(reconciler)


def names_changed(event: Event) -> bool:
    """Predicate: only what changes who has which name."""
    old_and_new = [domains.names_of(entry) for entry in entries_of(event)]
    return len(old_and_new) != 2 or old_and_new[0] != old_and_new[1]


def _queue_all(entries: Sequence[Entry], queue: EventQueue) -> None:
    for entry in entries:
        queue.add(Request(entry.namespace, entry.name))
