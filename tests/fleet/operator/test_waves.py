"""A new image goes to one stack first, then to twice as many each time, and a broken one stays where it is."""

from __future__ import annotations

from typing import Any

import pytest

from internal.fleet.stack_builder import StackOptions
from internal.fleet.waves import Health, Stack, waits_for
from tests.fleet.operator.harness import (
    SCALE,
    WORKLOADS,
    Hub,
    deployed,
    eventually,
    planes,
)

pytestmark = [pytest.mark.criterion("R-F17"), pytest.mark.xdist_group("fleet operator")]
NAMES = ("a", "b", "c", "d", "e", "f")


def rolled(stacks: dict[str, tuple[str, Health]]) -> set[str]:
    """Return those that get image 2."""
    made = [Stack(name, frozenset({image}), health) for name, (image, health) in stacks.items()]
    return {
        each.name for each in made if each.images != {"2"} and not waits_for(each.name, made, "2")
    }


def test_waves_double_while_they_are_healthy() -> None:
    stacks = dict.fromkeys(NAMES, ("1", Health.HEALTHY))
    waves = []
    while wave := rolled(stacks):
        waves.append("".join(sorted(wave)))
        assert rolled(stacks | dict.fromkeys(wave, ("2", Health.UNAVAILABLE))) == set()
        stacks |= dict.fromkeys(wave, ("2", Health.HEALTHY))
    assert waves == ["a", "b", "cd", "ef"]


@pytest.mark.parametrize(
    ("a", "wave"),
    [
        (Health.HEALTHY, {"a"}),
        (Health.UNAVAILABLE, {"b"}),
        (Health.FAILING, {"b"}),
        (Health.UNKNOWN, set()),
    ],
)
def test_the_first_is_one_that_works(a: Health, wave: set[str]) -> None:
    assert rolled({"a": ("1", a), "b": ("1", Health.HEALTHY)}) == wave


def test_one_that_no_image_is_to_blame_for_holds_nothing() -> None:
    stacks = {"a": ("2", Health.HEALTHY), "b": ("2", Health.FAILING), "c": ("1", Health.HEALTHY)}
    assert rolled(stacks) == {"c"}
    assert rolled({"a": ("1", Health.UNAVAILABLE), "b": ("1", Health.UNAVAILABLE)}) == {"a"}


async def images(hub: Hub) -> dict[str, set[str]]:
    """Return the images of each stack."""
    found: dict[str, set[str]] = {}
    for name in ("east", "north", "west"):
        for mapping, workload, _ in WORKLOADS:
            each: Any = await hub.client.get(mapping, workload, namespace=name)
            containers = each["spec"]["template"]["spec"]["containers"]
            found.setdefault(name, set()).update(item["image"] for item in containers)
    return found


async def finish_roll(hub: Hub, name: str) -> None:
    """Let the Pods of a stack be of their present templates."""
    for mapping, workload, replicas in WORKLOADS:
        each: Any = await hub.client.get(mapping, workload, namespace=name)
        counts = dict.fromkeys(("replicas", "availableReplicas", "updatedReplicas"), replicas)
        status = {**counts, "observedGeneration": each["metadata"]["generation"]}
        await hub.client.patch_status(mapping, workload, {"status": status}, namespace=name)


async def test_an_upgraded_operator_rolls_one_stack_and_waits_for_it() -> None:
    async with Hub.running() as hub, planes(3) as (east, north, west):
        async with hub.operator():
            await hub.configure(**SCALE)
            await deployed(hub, east=east, north=north, west=west)
        async with hub.operator(stack=StackOptions(image="stack:2")):
            for plane in (east, north, west):
                await plane.renew()

            async def have(*names: str) -> bool:
                wanted = {
                    each: {f"stack:{1 + (each in names)}"} for each in ("east", "north", "west")
                }
                return await images(hub) == wanted

            async def waits() -> bool:
                return "the new image" in await hub.message("west")

            await eventually(lambda: have("east"), lambda: images(hub))
            await eventually(waits, hub.config)
            assert await have("east")
            await finish_roll(hub, "east")
            await eventually(lambda: have("east", "north"), lambda: images(hub))
            await finish_roll(hub, "north")
            await eventually(lambda: have("east", "north", "west"), lambda: images(hub))
