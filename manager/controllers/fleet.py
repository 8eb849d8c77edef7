"""The operator of the fleet system, wired to the runtime."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

from apis.fleet import GROUP, FleetConfig, Reason
from apis.fleet.fleetconfig import DEFAULT_NAMESPACE, NAME
from apis.fleet.labels import DATA_PLANE, KUBECONFIG_SECRET, ORPHAN_RECORD, TARGET_NAMESPACE
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest
from ctrlruntime.cache import DeleteEvent, Entry, Event, Store, UpdateEvent
from ctrlruntime.client import Client, Config
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.cluster import ClusterOptions
from ctrlruntime.controller import Builder, ControllerOptions, Request, enqueue_map_func
from ctrlruntime.controller.event_dispatch import EventQueue
from ctrlruntime.controller.predicates import (
    annotation_changed,
    any_of,
    entries_of,
    generation_changed,
    more_than_own_status_changed,
)
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.generate.crd import crds_of
from ctrlruntime.manager import Manager
from ctrlruntime.resources import Control
from internal.fleet.binding_control import BY_STACK, BindingControl, is_staying
from internal.fleet.config_reconciler import ConfigReconciler
from internal.fleet.identities import BY_PLANE, Identities, plane_of
from internal.fleet.labels import FIELD_MANAGER, SELECTED
from internal.fleet.metrics import FleetMetrics
from internal.fleet.namespace_reconciler import NamespaceReconciler, releases_plane
from internal.fleet.plane_check import NAMESPACE, PlaneAnswer, check_plane
from internal.fleet.plane_checks import CheckTimes, PlaneChecks
from internal.fleet.planes import UNRENEWED, Planes
from internal.fleet.stack_bindings import BINDINGS, CLUSTER_ROLE_BINDING, RBAC, stacks_of, target_of
from internal.fleet.stack_builder import SUPPORT, WORKLOADS, StackOptions
from internal.fleet.stack_control import POD, StackControl
from internal.fleet.stack_deployer import StackDeployer
from internal.fleet.stack_removals import RECORD
from internal.fleet.stack_teardown import StackTeardown
from internal.fleet.targets import KnownTargets
from internal.removal_holds import LostRecords
from manager.controllers.orphan_record import CONFIG_MAP, HELD
from manager.kinds import PLANE_KINDS

SECRET: Final = BUILTIN[GroupVersionKind("", "v1", "Secret")]
ONLY: Final = f"metadata.name={KUBECONFIG_SECRET}"
"""Field selector: no other Secret is read."""
CHANGES: Final = ("create", "delete", "get", "patch")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """Options of the operator. Times in seconds."""

    stack: StackOptions
    concurrency: int = 50
    """Namespaces worked on at once; none of them waits for a data plane."""
    timeout: float = 30.0
    """For the work on one namespace."""
    status_delay: float = 1.0
    """Until changes are written to the status, so that many are one write."""
    unrenewed: float = UNRENEWED
    """Without a renewal of the Lease, until the controllers on a data plane count as gone."""
    checks: CheckTimes = field(default_factory=CheckTimes)
    clusters: ClusterOptions = field(default_factory=ClusterOptions)
    clock: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = monotonic
    kinds: Sequence[Any] = PLANE_KINDS
    """The kinds that a data plane has to serve."""


def add_operator(manager: Manager, options: OperatorOptions) -> None:
    """Add the controllers of the operator to a manager. From within its loop."""
    manager.cache.declare(FleetConfig)
    manager.cache.declare(
        NAMESPACE, metadata_only=True, indexes={BY_STACK: stacks_of, BY_PLANE: plane_of}
    )
    changes = RequestSource("what is known of target namespaces")
    looks = RequestSource("what data planes show")

    def status_changed() -> None:
        changes.enqueue(Request(NAME), "a stack has changed", after=options.status_delay)

    def look(name: str, reason: str) -> None:
        looks.enqueue(Request(name), reason)

    known = KnownTargets(status_changed)
    lost = LostRecords(
        ObjectPatcher(manager.client, FIELD_MANAGER),
        FleetConfig.mapping(),
        options.clock,
        lambda used: {RECORD: {**({"used": used} if used else {}), "approved": None}},
        record=RECORD,
    )
    reconciler = _namespace_reconciler(manager, options, known, lost, look)
    _add_configs(manager, options, known, lost, changes)
    _add_namespaces(manager, options, reconciler, looks)
    manager.add(Closing(reconciler.deployer.checks, reconciler.deployer.planes))


class Closing:
    """A runnable that ends checks and timers of data planes with the manager."""

    def __init__(self, checks: PlaneChecks, planes: Planes) -> None:
        self._checks = checks
        self._planes = planes

    async def start(self) -> None:
        """Wait for the end."""
        try:
            await asyncio.Event().wait()
        finally:
            self._planes.close()
            await self._checks.close()


def _add_configs(
    manager: Manager,
    options: OperatorOptions,
    known: KnownTargets,
    lost: LostRecords,
    changes: RequestSource,
) -> None:
    reconciler = ConfigReconciler(
        namespaces=manager.cache.informer(NAMESPACE).store,
        known=known,
        metrics=FleetMetrics(manager.metrics.registry),
        lost=lost,
        orphans_held=lambda: orphans_held(manager.cache.entries(CONFIG_MAP)),
    )

    def config(_event: Event, queue: EventQueue) -> None:
        """Look at all stacks once for many namespaces that change."""
        queue.add(Request(NAME), after=options.status_delay)

    builder = (
        Builder(manager)
        .for_(FleetConfig, predicates=[more_than_own_status_changed])
        .watches(NAMESPACE, config, metadata_only=True, predicates=[is_relevant])
        .watches(CONFIG_MAP, config, fields=f"metadata.name={ORPHAN_RECORD}")
        .watches_raw(changes)
        .explicit_permissions()
        .permission(GROUP, "fleetconfigs/status", "patch")
    )
    builder.build(
        reconciler.lifecycle.reconciler(manager, field_manager=FIELD_MANAGER, clock=options.clock)
    )


def orphans_held(records: Iterable[Entry]) -> dict[str, str]:
    """Return what the records of target namespaces hold, by namespace."""
    held = {each.namespace: (each.field("data") or {}).get(HELD) for each in records}
    return {name: str(message) for name, message in held.items() if message}


@dataclass(frozen=True, slots=True)
class NamespaceHandlers:
    """Enqueues target namespaces for what happens to other objects."""

    namespaces: Store
    bindings: Callable[[], Iterable[Entry]]
    known: KnownTargets

    def all_targets(self, event: Event, queue: EventQueue) -> None:
        """Enqueue what may be a target now, or has been one."""
        names = {entry.name for entry in self.namespaces if is_labelled(entry)}
        for binding in self.bindings():
            names.update(target_of(binding))
        for entry in entries_of(event):
            names.add((entry.field("spec") or {}).get("targetNamespace") or DEFAULT_NAMESPACE)
        for name in sorted(names):
            queue.add(Request(name))

    def those_waiting(self, event: Event, queue: EventQueue) -> None:
        """Enqueue those whose data plane another namespace has, once one gives its own up."""
        old = event.old if isinstance(event, UpdateEvent | DeleteEvent) else None
        new = event.new if isinstance(event, UpdateEvent) else None
        if old is None or not releases_plane(old, new):
            return
        for name, outcome in self.known.outcomes.items():
            if outcome.reason is Reason.NOT_UNIQUE:
                queue.add(Request(name))


def _add_namespaces(
    manager: Manager,
    options: OperatorOptions,
    reconciler: NamespaceReconciler,
    looks: RequestSource,
) -> None:
    handlers = NamespaceHandlers(
        manager.cache.informer(NAMESPACE).store,
        partial(manager.cache.entries, CLUSTER_ROLE_BINDING),
        reconciler.known,
    )
    its_namespace = enqueue_map_func(namespace_of)
    builder = (
        Builder(manager)
        .named("fleetnamespace")
        .for_(NAMESPACE, metadata_only=True)
        .watches(NAMESPACE, handlers.those_waiting, metadata_only=True)
        .watches(
            FleetConfig,
            handlers.all_targets,
            predicates=[any_of(generation_changed, annotation_changed, permits_changed)],
        )
        .watches(SECRET, its_namespace, fields=ONLY)
        .watches(POD, its_namespace, labels=SELECTED, metadata_only=True)
        .watches_raw(looks)
        .explicit_permissions()
        .permission("", "namespaces", "patch")
        .permission("", "services", *CHANGES)
        .permission("", "serviceaccounts", *CHANGES)
        .permission("apps", "deployments", *CHANGES)
        .permission("apps", "statefulsets", *CHANGES)
        .options(
            ControllerOptions(
                max_concurrent_reconciles=options.concurrency,
                reconciliation_timeout=options.timeout,
            )
        )
    )
    for mapping in (*WORKLOADS, *SUPPORT):
        builder.watches(
            mapping,
            its_namespace,
            labels=SELECTED,
            track_manager=FIELD_MANAGER,
            metadata_only=mapping in SUPPORT,
        )
    _watch_bindings(builder)
    builder.build(reconciler)


def permits_changed(event: Event) -> bool:
    """Return whether stacks were permitted to go."""
    found = [(each.field("status") or {}).get("removals") for each in entries_of(event)]
    return found[0] != found[-1]


def namespace_of(entry: Entry) -> Iterable[Request]:
    """Return the namespace that an object is in."""
    return [Request(entry.namespace)]


def _watch_bindings(builder: Builder[Request]) -> None:
    """Have stacks looked at when their bindings change, or the labels of namespaces that grant them."""

    def its_target(entry: Entry) -> Iterable[Request]:
        return [Request(name) for name in target_of(entry)]

    def its_stacks(entry: Entry) -> Iterable[Request]:
        return [Request(name) for name in stacks_of(entry)]

    builder.watches(
        NAMESPACE, enqueue_map_func(its_stacks), metadata_only=True, predicates=[grants_otherwise]
    )
    for mapping in BINDINGS:
        builder.watches(
            mapping,
            enqueue_map_func(its_target),
            labels=SELECTED,
            track_manager=FIELD_MANAGER,
            metadata_only=True,
            indexes={BY_STACK: target_of},
        ).permission(RBAC, mapping.plural, *CHANGES)


def is_labelled(entry: Entry) -> bool:
    """Return whether a namespace has a label of this group."""
    return DATA_PLANE in entry.labels or TARGET_NAMESPACE in entry.labels


def grants_otherwise(event: Event) -> bool:
    """Predicate: namespaces that let other stacks write in them than before, or are being deleted."""
    if not isinstance(event, UpdateEvent):
        return True
    old, new = event.old, event.new
    return stacks_of(old) != stacks_of(new) or is_staying(old) != is_staying(new)


def is_relevant(event: Event) -> bool:
    """Predicate: namespaces with a label of this group, before or after the change."""
    return any(is_labelled(entry) for entry in entries_of(event))


def _note_narrowed(manager: Manager, target: str) -> None:
    entry = manager.cache.entry(NAMESPACE, target)
    if entry is not None:
        note = (
            "the stack could read the Secrets of all namespaces of the hub, and reads those of its parallel namespaces"
            " and its own from now on; `manager operator --unrestricted-hub-secrets` allows all again"
        )
        manager.recorder.event(entry, "Normal", "SecretsRestricted", "Bind", note)


def _namespace_reconciler(
    manager: Manager,
    options: OperatorOptions,
    known: KnownTargets,
    lost: LostRecords,
    look: Callable[[str, str], None],
) -> NamespaceReconciler:
    cache = manager.cache
    namespaces = cache.informer(NAMESPACE).store
    control = Control(manager.cluster, field_manager=FIELD_MANAGER)
    stack = StackControl(cache, manager.live_client, control)
    bindings = BindingControl(
        cache,
        manager.live_client,
        control,
        parallel_of=lambda target: cache.entries(NAMESPACE, index={BY_STACK: target}),
        pace=manager.pace,
        restrict_secrets=options.stack.restrict_hub_secrets,
        narrowed=partial(_note_narrowed, manager),
    )
    patcher = ObjectPatcher(manager.client, FIELD_MANAGER)

    def secret_of(namespace: str) -> Mapping[str, Any] | None:
        entry = cache.entry(SECRET, KUBECONFIG_SECRET, namespace=namespace)
        return None if entry is None else entry.field("data") or {}

    def warn(entry: Entry, note: str) -> None:
        manager.recorder.event(entry, "Warning", "LabelInvalid", "Discover", note)

    deployer = StackDeployer(
        secret_of=secret_of,
        stack=stack,
        bindings=bindings,
        patcher=patcher,
        identities=Identities(lambda plane: cache.entries(NAMESPACE, index={BY_PLANE: plane})),
        checks=PlaneChecks(_checking(options), look, options.checks, options.monotonic),
        planes=Planes(manager, look, options.clusters, options.unrenewed, options.monotonic),
        known=known,
        options=options.stack,
        clock=options.clock,
    )
    return NamespaceReconciler(
        configs=cache.informer(FleetConfig).store,
        namespaces=namespaces,
        deployer=deployer,
        teardown=StackTeardown(stack, bindings, patcher),
        known=known,
        lost=lost,
        warn=warn,
    )


def _checking(options: OperatorOptions) -> Callable[[Config, bool], Any]:
    """Return how a data plane is checked: by a client of its own, for what this program's kinds need."""

    @functools.cache
    def crds() -> list[Manifest]:
        return crds_of(options.kinds)

    async def check(config: Config, write: bool) -> PlaneAnswer:
        expected = await asyncio.to_thread(crds)
        async with Client.connect(config) as client:
            return await check_plane(client, expected, write=write)

    return check
