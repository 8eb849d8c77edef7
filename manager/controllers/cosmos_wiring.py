"""What the controllers of the cosmos system are wired with alike."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ctrlruntime.api import Resource, RESTMapping
from ctrlruntime.cache import DeleteEvent, Event, Store
from ctrlruntime.client import Client, Forbidden, NotFound
from ctrlruntime.controller.event_dispatch import EventQueue, Handler
from ctrlruntime.controller.reconcile import Reconciler
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.lifecycle import PausePolicy
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from internal.cosmos.labels import FIELD_MANAGER
from manager.controllers.cosmos_parts import CosmosParts
from manager.controllers.error_status import with_error_status


def guarded(
    parts: CosmosParts, reconciler: Reconciler, store: Store, kind: type[Resource[Any, Any]]
) -> Reconciler:
    """Return the reconciler with a condition for exceptions that it does not expect."""
    return with_error_status(
        parts.manager,
        reconciler,
        store,
        kind.mapping(),
        field_manager=FIELD_MANAGER,
        clock=parts.options.clock.now,
        pauses=PausePolicy(),
    )


def absence_of(client: Client, mapping: RESTMapping) -> Callable[[str, str], Awaitable[bool]]:
    """Return a function that reads live whether the server has no object of a namespace and name."""

    async def is_gone(namespace: str, name: str) -> bool:
        try:
            await client.get(mapping, name, namespace=namespace, metadata_only=True)
        except NotFound:
            return True
        return False

    return is_gone


def absence_of_class(client: Client, mapping: RESTMapping) -> Callable[[str], Awaitable[bool]]:
    """Return a function that reads live whether the server certainly has no object of a cluster-scoped kind and name.

    Where the kind may not be read it is not certain.
    """

    async def is_absent(name: str) -> bool:
        try:
            await client.get(mapping, name, metadata_only=True)
        except NotFound:
            return True
        except Forbidden:
            return False
        return False

    return is_absent


def enqueue_at_jumps(parts: CosmosParts, store: Store, wakeups: RequestSource) -> None:
    """Enqueue all objects of a store when the clock that schedules go by jumps, and when the hub is lost or back."""

    def enqueue_all(reason: str) -> None:
        for namespace, name in list(store.keys()):
            wakeups.enqueue(Request(name, namespace=namespace), reason)

    parts.options.clock.subscribe(partial(enqueue_all, "the clock jumped"))
    parts.objects.subscribe(partial(enqueue_all, "the hub answers no longer, or again"))


def enqueue_at_definitions(manager: Manager, store: Store) -> Handler[Any, Request]:
    """Return a handler of CRDs that looks for their kinds and enqueues all objects of a store."""

    def definition_changed(event: Event, queue: EventQueue) -> None:
        removed = event.old.name if isinstance(event, DeleteEvent) else ""
        manager.cache.notify_discovery_changed(removed=removed)
        for namespace, name in list(store.keys()):
            queue.add(Request(name, namespace=namespace))

    return definition_changed
