"""A change of the FleetConfig that removes stacks of data planes waits for a person, as a set, once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from apis.fleet import FleetConfig
from internal.fleet.status import INVALID

from .harness import NAMESPACE, OBJECTS, SCALE, Hub, deployed, eventually, namespace, planes
from .test_real_hub import real_hub

APPROVE = "fleet.ctrlruntime.dev/allow-delete"
NORMAL = {"targetNamespace": "switch-fleet"}


@asynccontextmanager
async def started(request: pytest.FixtureRequest, backend: str) -> AsyncIterator[Hub]:
    """A hub on the embedded server, or on a real one, which is left as it was."""
    if backend == "embedded":
        async with Hub.running() as hub:
            yield hub
        return
    async with real_hub(request.getfixturevalue("real_server")) as hub:
        yield hub
        for name in ("switch-east", "switch-west", "switch-north", "switch-fleet"):
            await hub.client.delete(NAMESPACE, name)


BACKENDS = ["embedded", pytest.param("real", marks=pytest.mark.xdist_group("real-server"))]


async def held(hub: Hub, *names: str) -> bool:
    status, _, message = await hub.condition("DeletionsHeld")
    return status == "True" and all(f"Namespace {name} (SpecChanged)" in message for name in names)


async def nothing_held(hub: Hub) -> bool:
    return (await hub.condition("DeletionsHeld"))[0] == "False"


async def is_invalid(hub: Hub) -> bool:
    status, reason, _ = await hub.condition("Ready")
    return (status, reason) == ("False", INVALID)


async def approve(hub: Hub) -> str:
    """Run the command that the condition shows; return its digest."""
    message = (await hub.condition("DeletionsHeld"))[2]
    found = re.search(rf"kubectl annotate fleetconfig fleet --overwrite {APPROVE}=(\w+)", message)
    assert found, message
    patch = {"metadata": {"annotations": {APPROVE: found[1]}}}
    await hub.client.patch(FleetConfig, "fleet", patch)
    return found[1]


@pytest.mark.criterion("G-F6")
@pytest.mark.criterion("G-T3")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_switch_of_the_mode_removes_no_stacks_until_exactly_they_are_approved(
    backend: str, request: pytest.FixtureRequest
) -> None:
    east, west, fleet = "switch-east", "switch-west", "switch-fleet"
    async with started(request, backend) as hub, planes(2) as (first, second):
        async with hub.operator():
            await hub.configure(**SCALE)
            await deployed(hub, **{east: first, west: second})
            await hub.client.create(namespace(fleet))
            await hub.configure(**NORMAL)
            await hub.make_available(fleet)
            await hub.until(switch_fleet="SuccessfulDeployment")
            await eventually(partial(held, hub, east, west), hub.config)
            status, _, message = await hub.condition("TeardownComplete")
            assert status == "False"
            assert f"{east}: waits for an approval" in message
            await hub.configure(**SCALE)  # a mistake that is taken back: nothing has gone
            await eventually(partial(nothing_held, hub), hub.config)
            await hub.until_torn_down(fleet)
            assert await hub.objects(east) == await hub.objects(west) == OBJECTS
            await hub.configure(**NORMAL)
            await eventually(partial(held, hub, east, west), hub.config)
        async with hub.operator():
            # One of two loses its own label, and goes; what was held stays, though it is the only one by now.
            await hub.label(east, None)
            await hub.until_torn_down(east)
            await eventually(partial(held, hub, west), hub.config)
            assert await hub.objects(west) == OBJECTS
            used = await approve(hub)
            await hub.until_torn_down(west)
            await hub.configure(**SCALE)
            await hub.add("switch-north", None)
            await hub.run_stack(west, second)
            await hub.until(
                switch_west="SuccessfulDeployment", switch_north="KubeconfigSecretMissing"
            )
            await hub.configure(**NORMAL)  # the approval has counted once
            await eventually(partial(held, hub, west), hub.config)
            assert (await hub.config()).metadata.annotations == {APPROVE: used}
            assert await hub.objects(west) == OBJECTS
        # Neither what was held nor which approval was used is known without the status: an invalid spec hides no loss.
        await hub.configure(**SCALE, **NORMAL)
        await hub.label("switch-north", None)
        found = (await hub.config()).status.to_wire()
        await hub.client.patch_status(FleetConfig, "fleet", {"status": dict.fromkeys(found)})
        async with hub.operator():
            await eventually(partial(is_invalid, hub), hub.config)
            await hub.configure(**NORMAL)
            await eventually(partial(held, hub, west), hub.config)
            assert await hub.objects(west) == OBJECTS
