"""What writes of particular kinds lead to; what needs no more than the object is in the module of its kind."""

from __future__ import annotations

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.definitions import DEFINITIONS, Definitions
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.kinds.storage_class import is_default
from ctrlruntime.envtest.server.services import Allocator
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record


def admit(state: State, kind: Kind, obj: Manifest) -> None:
    """Add what upstream's default admission plugins add to new objects."""
    kind.builtin.admit(obj)
    if kind.resource == "persistentvolumeclaims" and obj["spec"].get("storageClassName") is None:
        for record in state.storage.bucket("storageclasses.storage.k8s.io").scan():
            if is_default(record.obj):
                obj["spec"]["storageClassName"] = record.name


def before_create(state: State, kind: Kind, obj: Manifest, *, dry_run: bool = False) -> None:
    """After field managers were recorded, before validation: allocations and the like."""
    if kind.resource == "services":
        allocator(state).assign(obj, dry_run=dry_run)
    kind.builtin.before_create(obj)


def allocator(state: State) -> Allocator:
    """Return the addresses and node ports of Services."""
    found = state.allocations.get("services")
    if found is None:
        found = state.allocations["services"] = Allocator(state.options.service_cidr)
    assert isinstance(found, Allocator)  # noqa: S101 - set above only
    return found


def undo_create(state: State, kind: Kind, obj: Manifest) -> None:
    """Give back what `before_create` took, after a create that failed."""
    if kind.resource == "services":
        allocator(state).release(obj)


def after_create(state: State, kind: Kind, record: Record) -> None:
    if kind.resource == DEFINITIONS:
        Definitions(state).establish(record)


def before_update(state: State, kind: Kind, new: Manifest, old: Manifest, subresource: str) -> None:
    if subresource == "status":
        return
    if kind.resource == "services":
        allocator(state).reassign(new, old)
    kind.builtin.before_update(new, old, subresource)


def after_tracking(kind: Kind, new: Manifest, old: Manifest, subresource: str) -> None:
    """Make the changes that an update makes without the writer owning it."""
    if subresource != "status" and kind.builtin.after_tracking is not None:
        kind.builtin.after_tracking(new, old)


def after_update(state: State, kind: Kind, record: Record, previous: Record) -> None:
    del previous
    if kind.resource == DEFINITIONS:
        Definitions(state).establish(record)


def after_delete(state: State, kind: Kind, record: Record) -> None:
    if kind.resource == DEFINITIONS:
        Definitions(state).withdraw(record.obj)
    elif kind.resource == "services":
        allocator(state).release(record.obj)
