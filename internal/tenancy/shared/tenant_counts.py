"""Feeds the tally with tenant events, and tells whose counts changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from apis.tenancy import TenantRegistry
from ctrlruntime.cache import DeleteEvent, Entry, Event
from ctrlruntime.controller.annotations import is_paused
from ctrlruntime.controller.predicates import entries_of
from ctrlruntime.queue import Request
from ctrlruntime.resources import OWNER
from internal.tenancy.shared.outcome import REMOVAL_PENDING
from internal.tenancy.shared.tally import Tally, TenantState

T = TypeVar("T")

REMOVALS: Final = "removals"
"""Group of the tenants of a registry that wait for an object to be removed."""


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    """What is counted of a spec. The rest of it, which is long, is not decoded."""

    registry_id: Any = ""
    template_ref: Any = ""
    template_revision: Any = ""


class _Status(msgspec.Struct, gc=False, rename="camel"):
    """What is counted of a status."""

    observed_generation: Any = None
    conditions: Any = ()


_spec_decoder = msgspec.json.Decoder(_Spec)
_status_decoder = msgspec.json.Decoder(_Status)


def _spec_of(entry: Entry) -> _Spec:
    return _read(_spec_decoder, entry, "spec") or _Spec()


def _status_of(entry: Entry) -> _Status:
    return _read(_status_decoder, entry, "status") or _Status()


def _read(decoder: msgspec.json.Decoder[T], entry: Entry, name: str) -> T | None:
    """Return a field as far as the decoder reads it; None if there is none, or if it is no object."""
    raw = entry.fields.get(name)
    try:
        return None if raw is None else decoder.decode(raw)
    except msgspec.ValidationError:
        return None


@dataclass(slots=True)
class TenantCounting:
    """An event handler of the tenant informer."""

    tally: Tally
    on_change: Callable[[str, Request], None]
    """Gets `registry`, `template` or `removals`, and whose counts changed."""

    def __call__(self, event: Event) -> None:
        for entry in entries_of(event)[-1:]:
            if isinstance(event, DeleteEvent):
                changed = self.tally.remove(entry.key)
            else:
                spec, status = _spec_of(entry), _status_of(entry)
                groups, state = _groups(entry, spec, status), _state(entry, status)
                changed = self.tally.put(entry.key, groups, state, str(spec.template_revision))
            for group in sorted(changed, key=repr):  # a set's order is that of hashes
                self._notify(group)

    def _notify(self, group: Hashable) -> None:
        match group:
            case (str(kind), str(namespace), str(name), bool()):
                self.on_change(kind, Request(name, namespace=namespace))


Group = tuple[str, str, str, bool]


def group(kind: str, namespace: str, name: str, *, managed: bool = True) -> Group:
    """Return the tenants of a `registry` or `template`: those of the registry, or those that only name it."""
    return (kind, namespace, name, managed)


def _groups(entry: Entry, spec: _Spec, status: _Status) -> tuple[Group, ...]:
    """Return the registry and the template that a tenant counts for, and whether that registry made it.

    Among them the registry's removals, while the tenant waits for one.
    """
    registry, template = str(spec.registry_id), str(spec.template_ref)
    owner = f"{TenantRegistry.gvk().group_kind}/{entry.namespace}/{registry}"
    managed = entry.annotations.get(OWNER) == owner
    groups = (
        group("registry", entry.namespace, registry, managed=managed),
        group("template", entry.namespace, template, managed=managed),
    )
    if not _waits_for_removal(entry, status):
        return groups
    return (*groups, group(REMOVALS, entry.namespace, registry, managed=managed))


def _waits_for_removal(entry: Entry, status: _Status) -> bool:
    """Whether an object of a tenant is still to be removed, or its own deletion is paused."""
    if entry.deletion_timestamp is not None and is_paused(entry.annotations):
        return True
    return any(
        (condition.get("type"), condition.get("status")) == (REMOVAL_PENDING, "True")
        for condition in status.conditions or ()
    )


def state_of(entry: Entry) -> TenantState:
    """Ready by its condition for its present spec; failed if degraded by failures or conflicts; else pending."""
    return _state(entry, _status_of(entry))


def _state(entry: Entry, status: _Status) -> TenantState:
    conditions = {c.get("type"): c for c in status.conditions or ()}
    if status.observed_generation != entry.generation:
        return TenantState.PENDING
    if conditions.get("Ready", {}).get("status") == "True":
        return TenantState.READY
    degraded = conditions.get("Degraded", {})
    if degraded.get("status") == "True" and degraded.get("reason") != "ResourcesNotReady":
        return TenantState.FAILED
    return TenantState.PENDING
