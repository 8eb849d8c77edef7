"""What events of the tenancy system queue: handlers and predicates."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from apis.tenancy import TenantRegistry
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache import Cache, DeleteEvent, Entry, Event, Store, UpdateEvent
from ctrlruntime.controller.event_dispatch import EventQueue, Handler
from ctrlruntime.controller.predicates import (
    annotation_changed,
    any_of,
    entries_of,
    generation_changed,
)
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.queue import Request
from ctrlruntime.resources import OWNER
from internal.tenancy.objects.children import ChildKinds
from internal.tenancy.objects.values import tenant_of_values
from internal.tenancy.registry.awaited_tenants import AwaitedTenants
from internal.tenancy.registry.reconciler import RegistryReconciler
from internal.tenancy.sync.neighbours import REGISTRY_INDEX, registry_of
from internal.tenancy.template.revisions import templates_of

generation_or_pause_changed = any_of(generation_changed, annotation_changed)
"""Predicate: blocks updates of the status."""


# -- tenants and templates ------------------------------------------------------------------------


def values_changed(event: Event, queue: EventQueue) -> None:
    """Queue the tenant of a Secret with sensitive values."""
    for entry in entries_of(event)[-1:]:
        queue.add(Request(tenant_of_values(entry.name), namespace=entry.namespace))


def crd_changed(cache: Cache, kinds: ChildKinds, tenants: RequestSource) -> Handler:
    """Return a handler of CRDs that queues the tenants that wait for a kind which is served now."""

    def queue_waiting(event: Event, _queue: EventQueue) -> None:
        removed = event.old.name if isinstance(event, DeleteEvent) else ""
        cache.notify_discovery_changed(removed=removed)
        for user in kinds.appeared():
            if isinstance(user, Request):
                tenants.enqueue(user, "a kind appeared")

    return queue_waiting


def registry_changed(templates: Store) -> Handler:
    """Return a handler of registries that queues their templates."""

    def queue_templates(event: Event, queue: EventQueue) -> None:
        for entry in entries_of(event)[-1:]:
            key = f"{entry.namespace}/{entry.name}"
            for template in templates.by_index(REGISTRY_INDEX, key):
                queue.add(Request(template.name, namespace=template.namespace))

    return queue_templates


# -- registries -----------------------------------------------------------------------------------


@dataclass(slots=True)
class RegistrySignals:
    """Enqueues registries for what no watch of a kind reports."""

    source: RequestSource
    templates: Store
    status_period: float
    reconciler: RegistryReconciler = field(init=False)

    def rows_changed(self, users: frozenset[Hashable]) -> None:
        """Query again: credentials or rows changed. Of `users`, those that are registries are concerned."""
        for request in self.reconciler.query_now(users):
            self.source.enqueue(request, "credentials or rows changed")

    def row_changed(self, request: Request) -> None:
        """Query again: the source of a registry reported a change."""
        self.rows_changed(frozenset({request}))

    def replacement_changed(self, request: Request) -> None:
        """Plan again: a Tenant that replaces another one changed."""
        self.reconciler.replan(request)
        self.source.enqueue(request, "a replacement changed", after=self.status_period)

    def freeze_changed(self, request: Request) -> None:
        """Plan again: a freeze that holds changes of a registry began or ended."""
        self.reconciler.replan(request)
        self.source.enqueue(request, "a freeze began or ended")

    def health_changed(self, template: Request) -> None:
        """Plan again: a health check of a template has a result."""
        entry = self.templates.get(template.name, namespace=template.namespace)
        for key in () if entry is None else _named_registries(entry):
            registry = Request(key.partition("/")[2], namespace=template.namespace)
            self.reconciler.replan(registry)
            self.source.enqueue(registry, "a health check has a result")

    def written_back(self, request: Request) -> None:
        """Report the outcome: states were written back to the rows."""
        self.source.enqueue(request, "states were written back")


@dataclass(slots=True)
class RegistryHandlers:
    """Handlers that make registries query or plan again."""

    reconciler: RegistryReconciler
    awaited: AwaitedTenants
    wakeups: RequestSource
    templates: Store

    def template_changed(self, event: Event, queue: EventQueue) -> None:
        """Plan again with a changed template."""
        for request in registries_concerned(event, self.awaited):
            self.reconciler.replan(request)
            queue.add(request)

    def tenant_changed(self, event: Event, queue: EventQueue) -> None:
        """Plan again after a Tenant was changed or deleted."""
        if isinstance(event, DeleteEvent):
            self.reconciler.tenant_gone(event.old.namespace, event.old.name)
        request = writer_of(event)
        if request is not None:
            self.reconciler.replan(request)
            queue.add(request)

    def child_changed(self, _mapping: RESTMapping, event: Event) -> None:
        """Plan again after a Secret with values changed, as the reconciler's own watch reports it."""
        request = writer_of(event)
        if request is not None:
            self.reconciler.replan(request)
            self.wakeups.enqueue(request, "a Secret with values changed")

    def revision_changed(self, event: Event) -> None:
        """Plan again after recorded content of a template was changed or deleted."""
        if not isinstance(event, DeleteEvent | UpdateEvent):
            return
        for key in templates_of(event.old):
            namespace, _, name = key.partition("/")
            template = self.templates.get(name, namespace=namespace)
            for registry in () if template is None else _named_registries(template):
                request = Request(registry.partition("/")[2], namespace=namespace)
                self.reconciler.replan(request)
                self.wakeups.enqueue(request, "recorded content of a template changed")


def registries_concerned(event: Event, awaited: AwaitedTenants) -> set[Request]:
    """Return the registries of a template, and those that wait for a tenant, which may be of that template."""
    found: set[Request] = set()
    for entry in entries_of(event):
        found.update(awaited.waiting(entry.namespace))
        for key in _named_registries(entry):
            namespace, _, name = key.partition("/")
            found.add(Request(name, namespace=namespace))
    return found


def _named_registries(template: Entry) -> Sequence[str]:
    """Return the registry that a template names; of one that cannot be read none: its registry finds out by itself."""
    try:
        return registry_of(template)
    except ValidationError:
        return ()


def writer_of(event: Event) -> Request | None:
    """Return the registry whose object was deleted or changed, perhaps by another writer: it compares again."""
    return owning_registry(event.old) if isinstance(event, DeleteEvent | UpdateEvent) else None


def owning_registry(entry: Entry) -> Request | None:
    """Return the registry recorded as an object's owner."""
    key = entry.annotations.get(OWNER, "")
    prefix = f"{TenantRegistry.gvk().group_kind}/"
    if not key.startswith(prefix):
        return None
    namespace, _, name = key.removeprefix(prefix).partition("/")
    return Request(name, namespace=namespace)
