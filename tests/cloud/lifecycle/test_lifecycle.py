"""The life of an instance on a real API server, from `kubectl apply` to gone, as the diagram has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctrlruntime.envtest.eventually import eventually_holds
from tests.backends import SharedServer
from tests.cloud.lifecycle.chronicle import Seen
from tests.cloud.lifecycle.scenery import Scenery

PATIENCE = 150.0
CHAIN = ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants")
STATES = ("Pending", "Creating", "Created", "Started", "Done")


def told(*kinds: str) -> list[tuple[str, str]]:
    """The events of one run of each kind, one after another."""
    return [(kind, state) for kind in kinds for state in STATES]


async def ready(scenery: Scenery, generation: int) -> Seen:
    def is_so(seen: Seen) -> bool:
        return seen.ready and seen.generation == generation

    return await scenery.chronicle.until("Instance", is_so, timeout=PATIENCE)


async def events_are(scenery: Scenery, expected: list[tuple[str, str]]) -> None:
    """They are sent beside the work, so the last may come a little later."""

    async def is_so() -> bool:
        steps = await scenery.steps()
        assert steps == expected, steps
        return True

    await eventually_holds(is_so, timeout=PATIENCE, interval=0.1)


@pytest.mark.timeout(300)
@pytest.mark.criterion("SG-03", "SG-06", "SG-07", "SG-08", "SG-26", "SG-61")
async def test_from_apply_to_ready(real_server: SharedServer, tmp_path: Path) -> None:
    async with Scenery.set_up(real_server, tmp_path) as scenery:
        await scenery.apply(scenery.instance(version="5.1.0", machine="n2-standard-8"))
        await ready(scenery, 1)
        await events_are(scenery, told(*CHAIN))
