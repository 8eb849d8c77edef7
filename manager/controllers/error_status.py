"""What every reconciler of the manager is wrapped in: pause, reconcile-now, and a condition for what it does not expect."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.protected_namespaces import ProtectedNamespaces
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.error_status import Entries, ErrorStatus
from ctrlruntime.controller.reconcile import Reconciler, Result
from ctrlruntime.lifecycle import PausableReconciler, PausePolicy, StatusWriter
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
    pauses: PausePolicy | None = None,
) -> Reconciler:
    """Return the reconciler with a condition for exceptions that it does not expect, and for protected namespaces.

    `pauses`: what pauses the objects; None: the reconciler sees to that itself, and to reconcile-now.
    """
    if pauses is not None:
        statuses = StatusWriter(ObjectPatcher(manager.client, field_manager), clock)
        reconciler = PausableReconciler(reconciler, entries, mapping, statuses, pauses)
    return ErrorStatus(
        reconciler=reconciler,
        entries=entries,
        client=manager.client,
        mapping=mapping,
        field_manager=field_manager,
        clock=clock,
        protected=manager.options.protected,
    )
