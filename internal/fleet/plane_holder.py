"""Whose stack holds the Lease of a data plane: two hubs with one plane are a mistake to report."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache import DeleteEvent, Entry, Event
from ctrlruntime.controller.predicates import entries_of

NOT_UNIQUE = "DataPlaneNotUnique"


class DataPlaneNotUnique(RuntimeError):
    """Another stack holds the Lease of the data plane."""


class NotHeld(RuntimeError):
    """No stack holds the Lease of the data plane yet."""


@dataclass(frozen=True, slots=True)
class StackName:
    """How the candidates of one stack begin in the Leases of its data plane."""

    prefix: str
    """By the id of the hub and the target namespace; it stays the same over new certificates and addresses."""
    former: str
    """By the hub's address and authority: of former versions, and of a start at which the hub does not answer."""

    def covers(self, holder: str) -> bool:
        """Return whether a holder is a candidate of this stack."""
        return holder.startswith((self.prefix, self.former))


@dataclass(slots=True)
class PlaneHolder:
    """Follows the Lease of a data plane, as an event handler of its informer.

    Without the Lease this stack writes nothing; while a stack of another hub, or of another namespace, holds it, that
    is an error and the stack is not ready.
    """

    stack: StackName
    logger: FilteringBoundLogger
    _other: str = field(default="", init=False)
    _is_own: bool = field(default=False, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __call__(self, event: Event) -> None:
        """Take in an event of the Lease."""
        found = "" if isinstance(event, DeleteEvent) else _holder(entries_of(event)[-1])
        self._is_own = self.stack.covers(found)
        other = "" if self._is_own else found
        if other and other != self._other:
            self.logger.error(
                "Another stack holds the Lease of the data plane; this one writes nothing",
                reason=NOT_UNIQUE,
                holder=other,
                own=self.stack.prefix,
            )
        self._other = other
        self._changed.set()

    @property
    def is_own(self) -> bool:
        """Whether this stack holds the Lease."""
        return self._is_own

    def check(self) -> None:
        """Raise DataPlaneNotUnique while another stack holds the Lease; a readiness check."""
        if self._other:
            raise DataPlaneNotUnique(
                f"{NOT_UNIQUE}: the Lease of the data plane is held by {self._other}, and this stack is "
                f"{self.stack.prefix}; one of the two has the wrong kubeconfig, or has to be removed"
            )

    def check_own(self) -> None:
        """Raise unless this stack holds the Lease: DataPlaneNotUnique, or NotHeld; a readiness check."""
        self.check()
        if not self._is_own:
            raise NotHeld(
                "the controllers of this stack do not hold the Lease of the data plane yet"
            )

    async def wait_own(self) -> None:
        """Return once this stack holds the Lease."""
        while not self._is_own:
            await self._next()

    async def wait_lost(self) -> None:
        """Raise DataPlaneNotUnique once another stack holds the Lease."""
        while True:
            self.check()
            await self._next()

    async def _next(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def _holder(entry: Entry) -> str:
    spec = entry.field("spec") or {}
    return str(spec.get("holderIdentity") or "")
