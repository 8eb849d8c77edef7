"""What the columns of Tenants show, for managers that watch rows of those that are another one's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from apis.tenancy import Tenant
from ctrlruntime.cache import Entry
from internal.tenancy.shared.labels import CHANGE
from internal.tenancy.shared.outcome import REMOVAL_PENDING
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.shared.tenant_counts import state_of

_NUMBERS: Final = {
    "Ready": "readyResources",
    "Desired": "desiredResources",
    "Failed": "failedResources",
    "Skipped": "skippedResources",
    "Observed": "observedGeneration",
}
"""Fields of the status, by column."""
_CONDITIONS: Final = {
    "Conflicted": ("Conflicted", "status"),
    "Is Ready": ("Ready", "status"),
    "Conditions": ("Ready", "reason"),
    "Message": ("Ready", "message"),
    "Degraded": ("Degraded", "reason"),
    "Removals": (REMOVAL_PENDING, "reason"),
}
"""Type and field of conditions, by column."""
_OF_OBJECT: Final = ("Name", "Object Namespace", "Object UID", "Deleting", "Generation")
_HEALTHY: Final = "Healthy"
"""The reason of a tenant that is not degraded."""
_NONE_PENDING: Final = "NothingPending"
_KIND: Final = Tenant.gvk()


class TenantColumns:
    """The columns that `kubectl get tenants -o wide` shows."""

    titles: Final = frozenset([*_OF_OBJECT, *_NUMBERS, *_CONDITIONS])

    def identity(self, cells: Mapping[str, Any]) -> Entry:
        """Return a Tenant of which nothing is known but this."""
        name, namespace, uid, deleting, generation = (cells[title] for title in _OF_OBJECT)
        return Entry(
            api_version=_KIND.api_version,
            kind=_KIND.kind,
            namespace=namespace,
            name=name,
            uid=uid,
            resource_version="",
            generation=generation or 0,
            labels={},
            annotations={},
            owners=(),
            finalizers=(),
            deletion_timestamp=deleting,
            creation_timestamp="",
            fields={},
        )

    def shown(self, entry: Entry) -> tuple[object, ...]:
        """Return what the columns show of a Tenant's status, as `status` has it of a row."""
        status = entry.field("status") or {}
        numbers = [status.get(name) for name in _NUMBERS.values()]
        found = {each.get("type"): each for each in status.get("conditions") or ()}
        texts = [found.get(kind, {}).get(name) for kind, name in _CONDITIONS.values()]
        return (*numbers, *texts)

    def status(self, cells: Mapping[str, Any]) -> tuple[tuple[object, ...], msgspec.Raw]:
        """Return what a row shows of the status, and a status that has nothing else."""
        conditions: dict[str, dict[str, Any]] = {}
        for title, (kind, name) in _CONDITIONS.items():
            if cells[title] is not None:
                conditions.setdefault(kind, {"type": kind})[name] = cells[title]
        if degraded := conditions.get("Degraded"):
            degraded["status"] = "False" if degraded["reason"] == _HEALTHY else "True"
        if removals := conditions.get(REMOVAL_PENDING):
            removals["status"] = "False"  # else it is read whole
        made: dict[str, Any] = {
            name: cells[title] for title, name in _NUMBERS.items() if cells[title] is not None
        }
        made["conditions"] = [*conditions.values()]
        shown = (*(cells[title] for title in (*_NUMBERS, *_CONDITIONS)),)
        return shown, msgspec.Raw(orjson.dumps(made))

    def is_wanted(self, cells: Mapping[str, Any]) -> bool:
        """Whether the leader shows what the rest of the status has: what waits to be removed, be it for a freeze alone."""
        return cells["Removals"] not in (None, _NONE_PENDING)

    def is_enough(self, entry: Entry) -> bool:
        """Whether a plan needs no more than the row: of one that is ready, and that no rollout has changed."""
        return state_of(entry) is TenantState.READY and CHANGE not in entry.annotations
