"""Instances of two data planes, with a kube-apiserver as their hub, where garbage collection runs."""

from __future__ import annotations

from pathlib import Path

from ctrlruntime.envtest.users import administrator
from tests.backends import SharedServer
from tests.fleet.stack.cloud_harness import CUSTOMER, cloud_fleet
from tests.fleet.stack.test_cloud import two_planes_share_a_name

PLACE = "runs-on-real-hub"


async def test_two_data_planes_share_a_real_hub_and_the_second_takes_over_a_name(
    real_server: SharedServer, tmp_path: Path
) -> None:
    (tmp_path / "hub").mkdir()
    hub = real_server.environment(
        users=(administrator("admin"), administrator(CUSTOMER)),
        proxy=True,
        nodes=True,
        run_local=True,
        folder=tmp_path / "hub",
    )
    async with cloud_fleet(tmp_path, hub, 2, namespace=PLACE, hub_user="admin") as servers:
        await two_planes_share_a_name(servers)
        assert await servers.left(servers.hub) == {}
