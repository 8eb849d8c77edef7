"""The FleetConfig shows what waits of owners that are gone from their data planes: names, count and command."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ctrlruntime.api import Condition, find_condition

from .harness import CONFIG_MAP, SCALE, Hub, deployed, eventually, planes

pytestmark = pytest.mark.criterion("G-F1")

HELD = (
    "2 deletions wait: Tenant a@1, Tenant b@1 (digest 0123456789abcdef). If this is meant, run `kubectl annotate "
    "namespace east --overwrite fleet.ctrlruntime.dev/allow-delete=0123456789abcdef`"
)


def record(namespace: str, name: str = "fleet-orphans", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def shown(hub: Hub) -> Condition | None:
    return find_condition((await hub.config()).status.conditions, "OrphansHeld")


async def shows(hub: Hub, status: str, words: str) -> bool:
    found = await shown(hub)
    return found is not None and found.status == status and words in found.message


async def test_held_orphans_are_a_condition_of_the_fleet_until_nothing_waits() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east, west=west)
        assert await shown(hub) is None, "none before the first hold"
        await hub.client.create(record("east", "other", held="nothing of ours"))
        await hub.client.create(record("west"))
        await hub.client.create(record("east", held=HELD))
        await eventually(partial(shows, hub, "True", f"east: {HELD}."), hub.config)
        patch = {"data": {"held": None}}
        await hub.client.patch(CONFIG_MAP, "fleet-orphans", patch, namespace="east")
        await eventually(partial(shows, hub, "False", "waits"), hub.config)
