"""What events of the cloud system queue: handlers, predicates and sources of requests."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from apis.cloud import Instance
from ctrlruntime.api import Resource, RESTMapping
from ctrlruntime.cache import Cache, DeleteEvent, Entry, Event, Store, UpdateEvent
from ctrlruntime.controller.event_dispatch import EventQueue, Handler
from ctrlruntime.controller.predicates import Predicate, entries_of
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.queue import Request
from ctrlruntime.resources import OwnerKey
from internal.cloud.instance import bundles, domains
from internal.cloud.instance.children import OF_INSTANCE, instances_of
from internal.cloud.runs import RunOwner
from manager.controllers.cloud_parts import CloudParts


@dataclass(frozen=True, slots=True)
class InstanceHandlers:
    """Handlers that queue instances for events of other objects."""

    instances: Store

    def name_changed(self, event: Event, queue: EventQueue) -> None:
        """Queue the instances that want a name that another one had or has."""
        names = {name for entry in entries_of(event) for name in domains.names_of(entry)}
        for name in names:
            _queue_all(self.instances.by_index(domains.INDEX, name), queue)

    def bundle_changed(self, event: Event, queue: EventQueue) -> None:
        """Queue the instances whose bundle contains the ConfigMap."""
        for entry in entries_of(event)[-1:]:
            key = f"{entry.namespace}/{entry.name}"
            _queue_all(self.instances.by_index(bundles.INDEX, key), queue)

    def child_changed(self, event: Event, queue: EventQueue) -> None:
        """Queue the instance of a subresource."""
        keys = {key for entry in entries_of(event) for key in instances_of(entry)}
        for key in sorted(keys):
            namespace, _, name = key.partition("/")
            queue.add(Request(name, namespace=namespace))


def instance_changed(subresources: Store) -> Handler:
    """Return a handler of instances that queues the subresources of one kind."""

    def queue_subresources(event: Event, queue: EventQueue) -> None:
        for entry in entries_of(event)[-1:]:
            key = f"{entry.namespace}/{entry.name}"
            _queue_all(subresources.by_index(OF_INSTANCE, key), queue)

    return queue_subresources


def upgraded_to(subresources: Store) -> Handler:
    """Return a handler of upgrades that queues the subresources with the version that they lead to: they may run again."""

    def queue_workloads(event: Event, queue: EventQueue) -> None:
        for upgrade in entries_of(event)[-1:]:
            version = (upgrade.field("spec") or {}).get("toVersion")
            for key in instances_of(upgrade):
                found = subresources.by_index(OF_INSTANCE, key)
                has = [
                    each for each in found if (each.field("spec") or {}).get("version") == version
                ]
                _queue_all(has, queue)

    return queue_workloads


def name_holder_changed(subresources: Store) -> Callable[[Entry], Iterable[Request]]:
    """Return a function that finds the subresources of the instance whose name an object of the hub holds."""

    def find(entry: Entry) -> Iterable[Request]:
        key = OwnerKey.of(entry)
        if key is None or key.kind != str(Instance.gvk().group_kind):
            return ()
        found = subresources.by_index(OF_INSTANCE, f"{key.namespace}/{key.name}")
        return [Request(each.name, namespace=each.namespace) for each in found]

    return find


def outputs_changed(kind: RESTMapping) -> Handler:
    """Return a handler of Secrets with outputs that queues the object of a kind that they are of."""
    group_kind = str(kind.gvk.group_kind)

    def owners_of(entry: Entry) -> set[Request]:
        names = {owner.name for owner in entry.owners if owner.kind == kind.gvk.kind}
        recorded = OwnerKey.of(entry)
        if recorded is not None and recorded.kind == group_kind:
            names.add(recorded.name)
        return {Request(name, namespace=entry.namespace) for name in names}

    def queue_owners(event: Event, queue: EventQueue) -> None:
        if isinstance(event, UpdateEvent | DeleteEvent):
            for request in set().union(*map(owners_of, entries_of(event))):
                queue.add(request)

    return queue_owners


def crd_changed(cache: Cache, objects: Store) -> Handler:
    """Return a handler of CRDs: objects that are being deleted may have to be released, or torn down."""

    def queue_deleted(event: Event, queue: EventQueue) -> None:
        cache.notify_discovery_changed(
            removed=event.old.name if isinstance(event, DeleteEvent) else ""
        )
        _queue_all([entry for entry in objects if entry.deletion_timestamp is not None], queue)

    return queue_deleted


def _queue_all(entries: Iterable[Entry], queue: EventQueue) -> None:
    for entry in entries:
        queue.add(Request(entry.name, namespace=entry.namespace))


# -- predicates -----------------------------------------------------------------------------------


def names_changed(event: Event) -> bool:
    """Predicate: only what changes who has which name."""
    names = [domains.names_of(entry) for entry in entries_of(event)]
    return len(names) != 2 or names[0] != names[1]


def control_changed(event: Event) -> bool:
    """Predicate: an instance that comes or goes, or whose annotations or spec change: its spec holds whether it is protected from deletion."""
    seen = [
        (entry.uid, entry.annotations, entry.deletion_timestamp, entry.generation)
        for entry in entries_of(event)
    ]
    return len(seen) != 2 or seen[0] != seen[1]


def defines(*kinds: type[Resource[Any, Any]]) -> Predicate:
    """Return a predicate: only CRDs of these kinds."""
    mappings = [kind.mapping() for kind in kinds]
    names = {f"{mapping.plural}.{mapping.gvk.group}" for mapping in mappings}

    def is_one(event: Event) -> bool:
        return any(entry.name in names for entry in entries_of(event))

    return is_one


# -- sources --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wakeups:
    """Queue subresources whose runs, places or settings changed."""

    parts: CloudParts
    sources: Mapping[str, RequestSource]
    """By kind."""

    @classmethod
    def of(cls, parts: CloudParts) -> Self:
        """Make one source for each kind of subresource."""
        return cls(parts, {kind: RequestSource(f"runs of {kind}") for kind in parts.kinds})

    def wake(self, owner: RunOwner) -> None:
        """Queue the object that a run belongs to."""
        source = self.sources.get(owner.kind)
        if source is not None:
            source.enqueue(Request(owner.name, namespace=owner.namespace), "its run or its turn")

    def settings_changed(self, tasks: list[str]) -> None:
        """Queue every object of tasks whose settings changed: some may start or be retried now."""
        for item in self.parts.subresources:
            if item.definition.name not in tasks:
                continue
            for entry in self.parts.store_of(item.kind):
                request = Request(entry.name, namespace=entry.namespace)
                self.sources[item.kind.gvk().kind].enqueue(request, "the settings of its task")
