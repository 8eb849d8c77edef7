"""Whose stack holds the Lease of a data plane: two hubs with one plane are a mistake to report."""

from __future__ import annotations

from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import DeleteEvent, Event
from ctrlruntime.controller.predicates import entries_of

NOT_UNIQUE = "DataPlaneNotUnique"


class DataPlaneNotUnique(RuntimeError):
    """Another stack holds the Lease of the data plane."""


@dataclass(slots=True)
class PlaneHolder:
    """Follows the Lease of a data plane, as an event handler of its informer.

    Candidates of one stack begin with `prefix`. Without the Lease this one writes nothing; while a stack of
    another hub, or of another namespace, holds it, that is an error and the stack is not ready.
    """

    prefix: str
    logger: FilteringBoundLogger
    _other: str = field(default="", init=False)

    def __call__(self, event: Event) -> None:
        """Take in an event of the Lease."""
        found = "" if isinstance(event, DeleteEvent) else _holder(entries_of(event)[-1])
        other = "" if found.startswith(self.prefix) else found
        if other and other != self._other:
            self.logger.error(
                "Another stack holds the Lease of the data plane; this one writes nothing",
                reason=NOT_UNIQUE,
                holder=other,
                own=self.prefix,
            )
        self._other = other

    def check(self) -> None:
        """Raise DataPlaneNotUnique while another stack holds the Lease; a readiness check."""
        if self._other:
            raise DataPlaneNotUnique(
                f"{NOT_UNIQUE}: the Lease of the data plane is held by {self._other}, and this stack is "
                f"{self.prefix}; one of the two has the wrong kubeconfig, or has to be removed"
            )


def _holder(entry: Entry) -> str:
    spec = entry.field("spec") or {}
    return str(spec.get("holderIdentity") or "")
