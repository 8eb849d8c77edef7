"""A move that waits for a stack or a person reads the two Tenants, and lists nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.stack.harness import deployment, eventually, tenant
from tests.fleet.stack.move_harness import MOVER, begin, renewed, two_planes

ROUNDS = 12


@pytest.mark.criterion("R-F18")
async def test_a_move_that_waits_does_not_list_the_hub_again(tmp_path: Path) -> None:
    """Six seconds: as many rounds of half a second are waited for."""
    async with (
        two_planes(tmp_path, 0) as servers,
        renewed(servers.planes[0], "plane-0"),
        renewed(servers.planes[1], "plane-1"),
    ):
        await servers.planes[0].client.create(tenant(deployment()))
        log = servers.planes[0].environment.proxy.log
        process = await begin(servers)
        try:

            async def rounds() -> bool:
                return log.counts().select(user=MOVER).verb("get") > ROUNDS

            await eventually(rounds)
            lists: dict[str, int] = {}
            for row in servers.hub.environment.proxy.log.entries():
                if (row.user, row.verb) == (MOVER, "list"):
                    lists[row.resource] = lists.get(row.resource, 0) + 1
            assert lists
            assert max(lists.values()) <= 8, (lists, process.log_tail())
        finally:
            process.kill()
            await process.wait()
