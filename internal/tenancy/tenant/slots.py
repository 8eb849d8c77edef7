"""Which tenants this process works on where several share them, and the label of that on all objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from apis.tenancy import Tenant
from ctrlruntime.api.conditions import Condition, new_condition
from ctrlruntime.cache import Entry, Store
from ctrlruntime.queue import Request
from ctrlruntime.resources import Desired, Owner
from ctrlruntime.sharding import SLOT_LABEL, SlotOwnership, format_slots, slot_of, slot_of_labels
from ctrlruntime.sharding.report import SlotsOwned
from internal.tenancy.objects.values import tenant_of_values
from internal.tenancy.shared.labels import VALUES

SLOTS_LABELLED: Final = "SlotsLabelled"
"""Condition of a registry: whether every tenant, and what it has, carries the label of its slot."""
SLOTS_OWNED: Final = "SlotsOwned"
"""Condition of a registry: whether a manager works on each slot."""
CONDITIONS: Final = (SLOTS_LABELLED, SLOTS_OWNED)
UNLABELLED_INDEX: Final = "unlabelled"
"""Index of tenants: the owner of one that has not got the label of its slot."""
_TENANT: Final = Tenant.gvk().group_kind


@dataclass(frozen=True, slots=True)
class TenantSlots:
    """The slots of this process."""

    ownership: SlotOwnership
    """Which slots it may work on now."""
    owned: Callable[[], SlotsOwned] | None = None
    """Returns where all slots are; None where that is not known."""

    def holds(self, tenant: Request) -> bool:
        """Whether this process works on a tenant now."""
        return slot_of(tenant.name, namespace=tenant.namespace) in self.ownership.held


@dataclass(frozen=True, slots=True)
class SlotConditions:
    """What registries report of slots, where several managers share the tenants."""

    tenants: Store
    slots: TenantSlots

    def of(self, registry: str, total: int) -> tuple[Condition, ...]:
        """Return the conditions of a registry, by its key as the owner of `total` tenants."""
        labelled = labelled_condition(self.tenants.count(UNLABELLED_INDEX, registry), total)
        if self.slots.owned is None:
            return (labelled,)
        return labelled, owned_condition(self.slots.owned())


def slot_labels(namespace: str, tenant: str) -> dict[str, str]:
    """Return the label of a tenant's slot, for the tenant and all that it has."""
    return {SLOT_LABEL: str(slot_of(tenant, namespace=namespace))}


def labels_of(desired: Desired, owner: Owner) -> Mapping[str, str]:
    """Return the label of the tenant that an object is, or is made for; none for what is of no tenant."""
    if owner.gvk.group_kind == _TENANT:
        return slot_labels(owner.namespace, owner.name)
    if desired.key.kind == _TENANT:
        return slot_labels(desired.namespace, desired.name)
    if VALUES in (desired.manifest["metadata"].get("labels") or {}):
        return slot_labels(desired.namespace, tenant_of_values(desired.name))
    return {}


def is_labelled(tenant: Entry) -> bool:
    """Whether a tenant has the label of its slot: then all that it has got it before."""
    return slot_of_labels(tenant.labels) == slot_of(tenant.name, namespace=tenant.namespace)


def labelled_condition(unlabelled: int, total: int) -> Condition:
    """Return how far the labels of a registry's tenants are."""
    done = total - unlabelled
    message = (
        "Every tenant and its objects carry the label of their slot."
        if not unlabelled
        else f"{done} of {total} tenants, and their objects, carry the label {SLOT_LABEL}. The managers of their slots "
        "label the others one after the other, and reconcile them then; the log of a manager has what is refused."
    )
    return new_condition(
        SLOTS_LABELLED,
        not unlabelled,
        "AllLabelled" if not unlabelled else "LabelsMissing",
        message,
    )


def owned_condition(owned: SlotsOwned) -> Condition:
    """Return which slots no manager works on. Since when is the condition's own time: its text changes with the slots alone."""
    parts = [
        f"slots {format_slots(each.slots)} have no owner: "
        + (f"{each.owner} has not taken them" if each.owner else "there is no manager for them")
        for each in owned.unowned
    ]
    parts += [
        f"{each.member} keeps slots {format_slots(each.slots)}, which are another's now; restart it"
        for each in owned.kept
    ]
    message = "; ".join(parts) + ". Their tenants are not reconciled meanwhile." if parts else ""
    reason = "SlotsWithoutOwner" if owned.unowned else "SlotsKept"
    return new_condition(
        SLOTS_OWNED,
        not parts,
        "AllOwned" if not parts else reason,
        message or "A manager works on each slot.",
    )
