"""Reconcilers whose unexpected exceptions become a condition of the object."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.protected_namespaces import ProtectedNamespaces
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.error_status import Entries, ErrorStatus
from ctrlruntime.controller.reconcile import Reconciler, Result
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request


@dataclass(frozen=True, slots=True)
class UnprotectedOnly:
    """A reconciler of objects outside of protected namespaces; another controller of the kind sets the condition."""

    reconciler: Reconciler
    protected: ProtectedNamespaces

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile. Raises what the reconciler raises."""
        if self.protected.is_protected(request.namespace):
            return None
        return await self.reconciler.reconcile(request)


def with_error_status(
    manager: Manager,
    reconciler: Reconciler,
    entries: Entries,
    mapping: RESTMapping,
    *,
    field_manager: str,
    clock: Callable[[], datetime] = utc_now,
) -> Reconciler:
    """Return the reconciler with a condition for exceptions that it does not expect, and for protected namespaces."""
    return ErrorStatus(
        reconciler=reconciler,
        entries=entries,
        client=manager.client,
        mapping=mapping,
        field_manager=field_manager,
        clock=clock,
        protected=manager.options.protected,
    )
