"""Feeds the tally with tenant events, and tells whose counts changed."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import Deleted, Event
from ctrlruntime.queue import Request
from internal.tenancy.children import entries_of
from internal.tenancy.tally import Tally, TenantState


@dataclass(slots=True)
class TenantCounting:
    """An event handler of the tenant informer."""

    tally: Tally
    on_change: Callable[[str, Request], None]
    """Gets `registry` or `template`, and whose counts changed."""

    def __call__(self, event: Event) -> None:
        for entry in entries_of(event)[-1:]:
            if isinstance(event, Deleted):
                changed = self.tally.remove(entry.key)
            else:
                changed = self.tally.put(entry.key, groups_of(entry), state_of(entry))
            for group in changed:
                self._tell(group)

    def _tell(self, group: Hashable) -> None:
        match group:
            case (str(kind), str(namespace), str(name)):
                self.on_change(kind, Request(namespace, name))


def groups_of(entry: Entry) -> tuple[tuple[str, str, str], ...]:
    """The registry and the template that a tenant counts for."""
    spec = entry.field("spec") or {}
    return (
        ("registry", entry.namespace, str(spec.get("registryId", ""))),
        ("template", entry.namespace, str(spec.get("templateRef", ""))),
    )


def state_of(entry: Entry) -> TenantState:
    """Ready by its condition; failed if it is degraded for failures or conflicts; else pending."""
    status = entry.field("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    if conditions.get("Ready", {}).get("status") == "True":
        return TenantState.READY
    degraded = conditions.get("Degraded", {})
    if degraded.get("status") == "True" and degraded.get("reason") != "ResourcesNotReady":
        return TenantState.FAILED
    return TenantState.PENDING
