"""What writes of particular built-in kinds bring about."""

from __future__ import annotations

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.definitions import DEFINITIONS, Definitions
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record


def before_create(state: State, kind: Kind, obj: Manifest) -> None:
    """After field managers were recorded, before validation: allocations and the like."""


def undo_create(state: State, kind: Kind, obj: Manifest) -> None:
    """A dry run gives back what `before_create` took."""


def after_create(state: State, kind: Kind, record: Record) -> None:
    if kind.resource == DEFINITIONS:
        Definitions(state).establish(record)


def before_update(state: State, kind: Kind, new: Manifest, old: Manifest, subresource: str) -> None:
    pass


def after_update(state: State, kind: Kind, record: Record, previous: Record) -> None:
    if kind.resource == DEFINITIONS:
        Definitions(state).establish(record)


def after_delete(state: State, kind: Kind, record: Record) -> None:
    if kind.resource == DEFINITIONS:
        Definitions(state).withdraw(record.obj)
