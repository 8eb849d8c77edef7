"""The label that names an object's slot: given by the leader, once, to objects that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.api.resource import KindRef, mapping_of
from ctrlruntime.cache.events import DeleteEvent, Event
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.controller.predicates import Predicate, entry_of
from ctrlruntime.controller.slot_gate import slot_of_request
from ctrlruntime.queue import Request
from ctrlruntime.sharding.slots import SLOT_LABEL, slot_of, slot_of_labels

if TYPE_CHECKING:
    from ctrlruntime.cache.cache import Cache

WITHOUT_SLOT: Final = f"!{SLOT_LABEL}"
"""Selects objects without a slot."""


def slot_labels(root: Request) -> dict[str, str]:
    """Return the label of the object that a request names, and of all that is made for it."""
    return {SLOT_LABEL: str(slot_of_request(root))}


def reporting_mislabelled(logger: FilteringBoundLogger, kind: RESTMapping) -> Predicate:
    """Return a predicate that lets every event through, and logs objects whose label names another slot than they are of."""

    def report(event: Event) -> bool:
        entry = entry_of(event)
        if entry is None or isinstance(event, DeleteEvent):
            return True
        found, wanted = slot_of_labels(entry.labels), slot_of(entry.name, namespace=entry.namespace)
        if found is not None and found != wanted:
            logger.warning(
                "The label of an object names another slot than it is of: it is left alone",
                namespace=entry.namespace,
                name=entry.name,
                slot=wanted,
                label=found,
                remedy=f"kubectl label {kind.plural} {entry.name} -n {entry.namespace or 'default'} {SLOT_LABEL}-",
            )
        return True

    return report


class SlotLabels:
    """Labels the objects of one kind that have no slot; then the member that holds it finds them."""

    def __init__(self, cache: Cache, kind: KindRef) -> None:
        self._cache = cache
        self._kind = kind

    async def reconcile(self, request: Request) -> None:
        """Write the label, unless the object was replaced or has one by now. Raises what a client raises."""
        entry = self._cache.entry(self._kind, request.name, namespace=request.namespace)
        if entry is None or SLOT_LABEL in entry.labels:
            return
        kind = mapping_of(self._kind) or self._cache.informer(self._kind).mapping
        metadata = {
            "uid": entry.uid,
            "resourceVersion": entry.resource_version,
            "labels": slot_labels(request),
        }
        namespace = request.namespace or None
        try:
            await self._cache.client().patch(
                kind, request.name, {"metadata": metadata}, namespace=namespace, metadata_only=True
            )
        except (Conflict, NotFound):
            return  # its next event leads here again
