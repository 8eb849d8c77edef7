"""What a data plane answers is what its entry reports: without kube-system, with other answers, without watches."""

from __future__ import annotations

import pytest

from ctrlruntime.envtest.proxy import Delay, Fail, Match
from ctrlruntime.envtest.server import bootstrap
from tests.fleet.operator.harness import (
    NAMESPACE,
    OBJECTS,
    SCALE,
    Hub,
    deployed,
    planes,
)
from tests.fleet.operator.test_trouble import until_stale

pytestmark = pytest.mark.xdist_group("fleet operator")


@pytest.mark.criterion("R-F21")
async def test_a_data_plane_without_kube_system_is_identified_by_its_own_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bootstrap, "NAMESPACES", ("default",))
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        own = await east.client.get(NAMESPACE, "fleet-system")
        assert await hub.identity("east") == own["metadata"]["uid"]
        assert await hub.objects("east") == OBJECTS


@pytest.mark.criterion("R-F21")
@pytest.mark.parametrize("code", [400, 404, 405, 409, 410, 422])
async def test_a_data_plane_that_answers_is_not_unreachable(code: int) -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        east.proxy.add(Fail(code, message="not here"), Match(verb="list"), times=None)
        await hub.configure(**SCALE)
        await hub.add("east", east)
        await hub.until(east="DataPlaneNotPrepared")
        assert f"the data plane answers, and lacks what a stack needs ({code}" in await hub.message(
            "east"
        )


@pytest.mark.criterion("R-F23")
async def test_watches_that_deliver_nothing_are_named_and_the_controllers_are_not_blamed() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        rule = east.proxy.add(Delay(3600.0), Match(verb="watch"), times=None)
        await hub.add("east", east)
        await hub.make_available("east")
        await hub.until(east="StackNotAvailable")
        await east.renew()  # its controllers are at work
        await until_stale(hub, "east")
        await hub.until(east="DataPlaneUnreachable")
        assert "its watches deliver nothing" in await hub.message("east")
        east.proxy.remove(rule)
        assert await hub.objects("east") == OBJECTS
