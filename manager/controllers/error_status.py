"""Reconcilers whose unexpected exceptions become a condition of the object."""

from collections.abc import Callable
from datetime import datetime

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.error_status import Entries, ErrorStatus
from ctrlruntime.controller.reconcile import Reconciler
from ctrlruntime.manager import Manager


def with_error_status(
    manager: Manager,
    reconciler: Reconciler,
    entries: Entries,
    mapping: RESTMapping,
    *,
    field_manager: str,
    condition: str = "Ready",
    clock: Callable[[], datetime] = utc_now,
) -> Reconciler:
    """Return the reconciler with a condition for exceptions that it does not expect."""
    return ErrorStatus(
        reconciler=reconciler,
        entries=entries,
        client=manager.client,
        mapping=mapping,
        field_manager=field_manager,
        clock=clock,
        condition=condition,
    )
