"""Instances that several managers share: each is reconciled, with its subresources and their runs, by the one that holds its slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from apis.cloud import Instance
from apis.cloud import WaitingReason as Reason
from ctrlruntime.api.resource import Resource
from ctrlruntime.cache import DeleteEvent, Entry, Event, Store
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.queue import Request
from ctrlruntime.rollout import ChangeHolds
from ctrlruntime.sharding import slot_of
from internal.cloud.concurrency.granter import Granter
from internal.cloud.concurrency.rebuild import LedgerKeeper
from internal.cloud.instance.lease_end import is_overdue
from internal.cloud.labels import INSTANCE, is_extracted
from internal.cloud.leases import is_ephemeral
from internal.cloud.subresource import Subresource
from internal.cloud.taskdriver import TaskMetrics
from internal.cloud.taskdriver.inputs import instance_name
from manager.controllers.cloud_parts import CloudParts
from manager.controllers.cloud_watches import Wakeups, control_changed, instance_changed
from manager.controllers.error_status import UnprotectedOnly
from manager.controllers.slot_memory import forget_with_slots

GRACE: Final = 30.0
"""Seconds without an owner after which a slot gets no grants: a hand-over, or a Lease that runs out, is over before."""


def instance_of(entry: Entry) -> str:
    """Return the name of a subresource's instance, as `instance_name` does."""
    owner = entry.controller
    if owner is not None and owner.kind == Instance.gvk().kind:
        return owner.name
    named = (entry.field("spec") or {}).get("instanceName")
    if isinstance(named, str) and named:
        return named
    return entry.labels.get(INSTANCE) or entry.name


def slot_of_parts(store: Store) -> Callable[[Request], int]:
    """Return a function that returns the slot of a subresource: that of its instance. Of one that is gone, by its own name."""

    def slot(request: Request) -> int:
        entry = store.get(request.name, namespace=request.namespace)
        name = request.name if entry is None else instance_of(entry)
        return slot_of(name, namespace=request.namespace)

    return slot


def requests_of(store: Store) -> list[Request]:
    """Return all objects of a store."""
    return [Request(entry.name, namespace=entry.namespace) for entry in store]


def forget_parts(
    parts: CloudParts, item: Subresource[Any], holds: ChangeHolds, metrics: TaskMetrics
) -> None:
    """Have what is kept in memory of subresources forgotten as their slots leave; holds also as they are deleted, wherever that is seen."""
    informer = parts.handle_of(item.kind).informer

    def deleted(event: Event) -> None:
        if isinstance(event, DeleteEvent):
            holds.record(Request(event.old.name, namespace=event.old.namespace), 0)

    def forget(request: Request) -> None:
        holds.record(request, 0)
        entry = informer.store.get(request.name, namespace=request.namespace)
        if entry is not None:
            metrics.forget(item.definition.name, entry.uid)

    if parts.manager.shards is not None:
        informer.add_handler(deleted)
    slot = slot_of_parts(informer.store)
    forget_with_slots(parts.manager, partial(requests_of, informer.store), forget, slot)


# -- what freezes hold, by what the objects show ---------------------------------------------------


def frozen_run(entry: Entry) -> int:
    """Return whether a freeze holds the next run of a subresource, as a count."""
    waiting = (entry.field("status") or {}).get("waiting") or {}
    return int(waiting.get("reason") == Reason.FROZEN.value)


def ended_lease(entry: Entry) -> int:
    """Return whether an instance is there though its lease has ended, as a count: while a freeze is active, that holds it."""
    return int(is_overdue(entry, utc_now()))


def has_lease(entry: Entry) -> bool:
    """Whether an instance has a lease at all."""
    return is_ephemeral((entry.field("spec") or {}).get("instanceFeatures") or {})


# -- grants ----------------------------------------------------------------------------------------


def add_granters(
    parts: CloudParts,
    keeper: LedgerKeeper,
    sources: Mapping[str, RequestSource],
    wakeups: Wakeups,
) -> None:
    """Have the leader grant starts. `sources`: by kind, those by which the ledger calls who may start now."""
    for item in parts.subresources:
        store = parts.store_of(item.kind)
        granter: Granter[Any] = Granter(
            item,
            keeper,
            parts.manager.client,
            parts.patcher,
            utc_now,
            partial(_is_left_alone, parts),
            partial(_has_owner, parts),
            wakeups.wake,
            parts.options.pace.waiting,
        )
        (
            Builder(parts.manager)
            .named(f"{item.kind.gvk().kind.lower()}-grants")
            .for_(item.kind)
            .watches(Instance, instance_changed(store), predicates=[control_changed])
            .watches_raw(sources[item.kind.gvk().kind])
            .explicit_permissions()  # those of the controller of the kind
            .build(UnprotectedOnly(granter, parts.manager.options.protected))
        )


def _is_left_alone(parts: CloudParts, resource: Resource[Any, Any]) -> bool:
    found = parts.store_of(Instance).get(
        instance_name(resource), namespace=resource.metadata.namespace or ""
    )
    return found is not None and is_extracted(found.annotations)


def _has_owner(parts: CloudParts, resource: Resource[Any, Any]) -> bool:
    shards = parts.manager.shards
    slot = slot_of(instance_name(resource), namespace=resource.metadata.namespace or "")
    late = () if shards is None else shards.owned.unowned
    return not any(slot in each.slots and each.seconds >= GRACE for each in late)
