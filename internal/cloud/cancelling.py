"""Cancels the runs that are under way for an Instance: one annotation on each subresource, which names the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlruntime.client.errors import Conflict, NotFound
from internal.cloud.labels import CANCEL, INSTANCE
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.taskdriver.record import is_live

if TYPE_CHECKING:
    from ctrlruntime.client.client import Client


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A run whose cancellation was requested."""

    kind: str
    """Kind of the subresource."""
    name: str
    run_id: str


async def cancel_runs(
    client: Client, instance: str, *, namespace: str, run_id: str = ""
) -> list[Cancellation]:
    """Request the cancellation of every run under way for an Instance, or of the one named `run_id`.

    A run that ends meanwhile is not touched: the annotation names it, and no other run has its id. Raises
    what the client raises.
    """
    done = []
    for subresource in SUBRESOURCES:
        found = await client.list(subresource.kind, namespace, labels=f"{INSTANCE}={instance}")
        for each in found:
            run = each.status.run
            if run is None or not is_live(run) or run_id not in ("", run.run_id):
                continue
            metadata = each.metadata
            patch = {"metadata": {"uid": metadata.uid, "annotations": {CANCEL: run.run_id}}}
            try:
                await client.patch(
                    subresource.kind, metadata.name or "", patch, namespace=namespace
                )
            except (NotFound, Conflict):
                continue  # it was deleted, and perhaps made again
            done.append(Cancellation(subresource.kind.__name__, metadata.name or "", run.run_id))
    return done
