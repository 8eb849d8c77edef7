"""The slots of a manager that shares the tenants with others: `manager run --slots` and `--shards`."""

from __future__ import annotations

from dataclasses import replace

from ctrlruntime.manager import Manager
from manager.options import RunOptions


def with_slots(options: RunOptions, manager: Manager) -> RunOptions:
    """Return the options with the slots of the manager, if it has any."""
    shards = manager.shards
    if shards is None or "tenancy" not in options.systems:
        return options
    from internal.tenancy.tenant.slots import (
        TenantSlots,  # imported where tenants are divided alone
    )

    slots = TenantSlots(shards, lambda: shards.owned)
    return replace(options, tenancy=replace(options.tenancy, slots=slots))
