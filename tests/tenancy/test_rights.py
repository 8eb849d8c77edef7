"""The manager as the account that is shipped, through a whole life: what it may is what it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tenancy.life import LeadersWorld, cases, live, served_kinds


@pytest.mark.criterion("rbac")
@pytest.mark.timeout(240)
async def test_every_verb_of_every_kind_is_used_in_a_whole_life(tmp_path: Path) -> None:
    async with LeadersWorld.start(tmp_path, manager=False) as world:
        await live(world, cases(await served_kinds(world.client)))
