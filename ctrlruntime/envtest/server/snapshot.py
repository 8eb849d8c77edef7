"""What a server holds at one moment, for other servers to start from.

    async with APIServer() as first:
        await install_crds(client, definitions)
        snapshot = first.snapshot()
    async with APIServer(ServerOptions(snapshot=snapshot)) as second:
        ...  # serves the same kinds and objects, UIDs and versions included

Starting from one takes less than a millisecond; to install fifteen definitions takes a tenth of a second.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlruntime.envtest.schema.registry import TypeSchema
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.storage import Record

if TYPE_CHECKING:
    from ctrlruntime.envtest.server.state import State


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The objects of a server, the custom kinds it serves, and what it has allocated.

    Its history is not part of it: a watch from before it gets 410. Records are shared, since they never change.
    """

    revision: int
    records: Mapping[str, tuple[Record, ...]]
    kinds: tuple[Kind, ...]
    compiled: Mapping[Any, TypeSchema]
    allocations: Mapping[str, Any]


def take(state: State) -> Snapshot:
    """Return what the server holds now."""
    return Snapshot(
        revision=state.storage.revision,
        records={bucket.resource: tuple(bucket.scan()) for bucket in state.storage},
        kinds=tuple(kind for kind in state.catalog if kind.custom),
        compiled=dict(state.compiled),
        allocations=copy.deepcopy(state.allocations),
    )


def restore(state: State, snapshot: Snapshot) -> None:
    """Make an empty server hold what another one held."""
    state.storage.revision = state.storage.beginning = snapshot.revision
    for resource, records in snapshot.records.items():
        bucket = state.storage.bucket(resource)
        for record in records:
            bucket.put((record.namespace, record.name), record.copy())
    for kind in snapshot.kinds:
        state.catalog.put(kind)
    state.compiled.update(snapshot.compiled)
    state.allocations.update(copy.deepcopy(dict(snapshot.allocations)))
