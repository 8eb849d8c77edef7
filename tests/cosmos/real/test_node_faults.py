"""Faults of single nodes on the real kube-apiserver: another key, evictions, Pods that end at once, a node that hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from internal.cosmos import labels
from internal.cosmos.fullnode.desired_objects import DISRUPTION_BUDGET
from internal.cosmos.fullnode.node_key import FILE, NodeKey
from tests.backends import SharedServer
from tests.cosmos.fullnode.harness import NAME, POD, SECRET
from tests.cosmos.fullnode.test_node_faults import notes
from tests.cosmos.real.harness import STORAGE, RealNodesHarness


@pytest.mark.slow
@pytest.mark.criterion("N-A7", "N-A11", "N-A15", "N-A17", "N-A19")
async def test_a_set_mends_its_nodes_one_at_a_time(
    real_server: SharedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RealNodesHarness.on(real_server, tmp_path) as harness:
        monkeypatch.setattr(labels, "HEALTH_PORT", harness.comet.port)
        place = await harness.place()
        disks = {"storageClassName": STORAGE}
        hangs = {"unresponsive": {"afterSeconds": 10}}
        await place.apply(place.node_set(volumeClaimTemplate=disks, selfHeal=hangs))
        found = await place.settled()
        budget = await place.object(DISRUPTION_BUDGET, NAME)
        assert budget["spec"]["minAvailable"] == 2
        patch = {"stringData": {FILE: NodeKey.make().text}}
        await place.client.patch(SECRET, "hub-1-node-key", patch, namespace=place.namespace)
        replaced = await notes(place, "PodReplaced", 3)
        assert "Pod hub-1 is made anew: its node key changed." in replaced
        await place.settled()
        place.node(2).hangs = True
        (note,) = await notes(place, "NodeUnresponsive")
        assert note.startswith("Deleted Pod hub-2: its node has not answered since ")
        place.node(2).hangs = False
        found = await place.settled()
        assert all(info.disk_used_percentage == 40 for info in found.status.sync.values())
        ended = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough"}
        await place.client.patch_status(POD, "hub-0", {"status": ended}, namespace=place.namespace)
        assert (await notes(place, "PodEnded"))[0].endswith("It is made anew.")
        await place.settled()
        await place.clear()
        await place.gone()
