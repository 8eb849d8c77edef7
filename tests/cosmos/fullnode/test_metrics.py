"""Series of the cosmos system: a manager with a set of nodes and a schedule serves every query."""

from __future__ import annotations

import pytest

from apis.cosmos import ScheduledVolumeSnapshot
from tests.cosmos.fullnode.harness import Place
from tests.observability.queries import of_alerts, of_dashboard, unserved
from tests.support.waiting import eventually

pytestmark = [pytest.mark.criterion("METRICS-LIVE"), pytest.mark.asyncio(loop_scope="module")]

NEVER = {"cosmos_cache_errors_total", "cosmos_cache_discarded_total", "cosmos_snapshots_total"}
"""Counters by labels of what never happens here."""


@pytest.mark.criterion("COSMOS-A8-5")
async def test_every_query_of_cosmos_is_served_by_a_manager(place: Place) -> None:
    await place.apply(place.node_set())
    await place.phase("Complete")
    kind = ScheduledVolumeSnapshot.gvk()
    spec = {
        "fullNodeRef": {"name": "hub"},
        "schedule": "0 0 * * *",
        "volumeSnapshotClassName": "fast",
    }
    metadata = {"name": "nightly", "namespace": place.namespace}
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    await place.client.create({**manifest, "spec": spec})

    async def missing() -> set[str]:
        assert place.harness.manager is not None
        text, _ = await place.harness.manager.metrics.scrape()
        queries = (of_dashboard("cosmos"), of_alerts("ctrlruntime.cosmos"))
        found = {name for each in queries for name in unserved(text.decode(), each)}
        return {name for name in found if name.startswith("cosmos_")}

    await eventually(missing, lambda names: names <= NEVER)
    await place.client.delete(ScheduledVolumeSnapshot, "nightly", namespace=place.namespace)
