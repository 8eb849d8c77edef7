"""A wrong answer of a node, on the real kube-apiserver."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends import SharedServer
from tests.cosmos.fullnode.test_foreign_answers import image_after_a_wrong_answer
from tests.cosmos.real.harness import STORAGE, RealNodesHarness


@pytest.mark.slow
@pytest.mark.criterion("G-N2")
async def test_a_wrong_answer_moves_no_node(real_server: SharedServer, tmp_path: Path) -> None:
    async with RealNodesHarness.on(real_server, tmp_path) as harness:
        for network in ("osmosis-1", "hub-1"):
            place = await harness.place()
            disks = {"storageClassName": STORAGE}
            image = await image_after_a_wrong_answer(harness, place, network, 3, claims=disks)
            assert image == "gaia:v1"
            await place.clear()
