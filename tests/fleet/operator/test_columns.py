"""Columns of kubectl for the FleetConfig."""

from __future__ import annotations

from apis.fleet import FleetConfig
from tests.support.kubectl_columns import printed

from .harness import SCALE, Hub, deployed, planes


async def test_15_4_kubectl_get_prints_ready_and_the_message_of_the_fleet_config() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        shown = await printed(hub.environment, FleetConfig, "fleet", "default")
        ready, _, message = await hub.condition("Ready")
        assert (ready, shown["READY"]) == ("True", "True")
        assert message
        assert shown["MESSAGE"] == message
