"""What a person requests of an Instance's subresources: one annotation on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlruntime.client.errors import Conflict, NotFound
from internal.cloud.labels import CANCEL, INSTANCE, RECONCILE
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.taskdriver.record import is_live

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ctrlruntime.api.resource import Resource
    from ctrlruntime.client.client import Client
    from internal.cloud.subresource import Subresource


@dataclass(frozen=True, slots=True)
class Requested:
    """A subresource that something was requested of."""

    kind: str
    name: str
    run_id: str = ""
    """The run to cancel; empty: a new one was requested."""


async def cancel_runs(
    client: Client, instance: str, *, namespace: str, run_id: str = ""
) -> list[Requested]:
    """Request the cancellation of every run under way for an Instance, or of the one named `run_id`.

    A run that ends meanwhile is not touched: the annotation names it, and no other run has its id. Raises
    what the client raises.
    """
    done = []
    async for subresource, found in subresources_of(client, instance, namespace):
        run = found.status.run
        if run is None or not is_live(run) or run_id not in ("", run.run_id):
            continue
        if await annotate(client, subresource, found, {CANCEL: run.run_id}):
            done.append(Requested(subresource.kind.__name__, found.metadata.name, run.run_id))
    return done


async def request_runs(
    client: Client, instance: str, *, namespace: str, value: str, kind: str = ""
) -> list[Requested]:
    """Request a run of each subresource of an Instance, or of one `kind`, although its inputs are carried out.

    Tasks that run once, such as upgrades, are left out. `value`: one that was not used before. Raises what the
    client raises.
    """
    done = []
    async for subresource, found in subresources_of(client, instance, namespace):
        name = subresource.kind.__name__
        leaves = found.metadata.deletion_timestamp is not None
        if leaves or subresource.definition.once or kind not in ("", name):
            continue
        if await annotate(client, subresource, found, {RECONCILE: value}):
            done.append(Requested(name, found.metadata.name))
    return done


async def subresources_of(
    client: Client, instance: str, namespace: str
) -> AsyncIterator[tuple[Subresource[Any], Any]]:
    """Yield each subresource of an Instance with its type. Raises what the client raises."""
    for subresource in SUBRESOURCES:
        found = await client.list(subresource.kind, namespace, labels=f"{INSTANCE}={instance}")
        for each in found:
            yield subresource, each


async def annotate(
    client: Client,
    subresource: Subresource[Any],
    found: Resource[Any, Any],
    annotations: Mapping[str, str | None],
) -> bool:
    """Write annotations; None removes one. Return False if the object was deleted, and perhaps made again."""
    metadata = found.metadata
    patch = {"metadata": {"uid": metadata.uid, "annotations": dict(annotations)}}
    try:
        await client.patch(subresource.kind, metadata.name, patch, namespace=metadata.namespace)
    except (NotFound, Conflict):
        return False
    return True
