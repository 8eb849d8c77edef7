"""Members take the place of the workers: the operator makes, changes and removes them, and what works goes last."""

from __future__ import annotations

import pytest

from ctrlruntime.client.errors import Conflict
from internal.fleet.labels import CONTROLLERS, WORKERS
from internal.fleet.stack_builder import DEPLOYMENT, STATEFUL_SET, StackOptions, build_stack
from internal.fleet.stack_layout import SHARDS, Layout, Pods, plan_layout
from tests.fleet.operator.harness import Hub, deployed, planes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.criterion("SH-30"), pytest.mark.xdist_group("fleet operator")]
SHARED = {WORKERS: (4, True), CONTROLLERS: (0, False)}
"""Pods of each workload, and whether they are members."""
ALONE = {WORKERS: (1, False), CONTROLLERS: (2, False)}


@pytest.mark.parametrize(
    ("shards", "workers", "controllers", "layout"),
    [
        (0, None, None, Layout()),
        (0, Pods(1, True, False), Pods(2, True, False), Layout()),
        (4, None, None, Layout(4, controllers=False)),
        (4, Pods(1, True, False), Pods(2, True, False), Layout(4)),
        (4, Pods(4, False, True), Pods(2, True, False), Layout(4)),
        (4, Pods(4, True, True), Pods(2, True, False), Layout(4, controllers=False)),
        (4, Pods(4, False, True), Pods(0, False, False), Layout(4, controllers=False)),
        (2, Pods(4, True, True), Pods(0, False, False), Layout(2, controllers=False)),
        (0, Pods(4, True, True), Pods(0, False, False), Layout(4)),
        (0, Pods(4, True, True), Pods(2, False, False), Layout(4)),
        (0, Pods(4, True, True), Pods(2, True, False), Layout()),
        (None, Pods(1, True, False), Pods(2, True, False), Layout()),
        (None, Pods(4, True, True), Pods(0, True, False), Layout(4, controllers=False)),
    ],
)
def test_what_works_goes_once_what_takes_over_is_there(
    shards: int | None, workers: Pods | None, controllers: Pods | None, layout: Layout
) -> None:
    assert plan_layout(shards, workers, controllers) == layout


def test_members_have_the_arguments_of_controllers_and_of_members() -> None:
    found = build_stack("east", StackOptions(image="stack:1"), layout=Layout(4))
    (made,) = (each for each in found if each.mapping is STATEFUL_SET)
    arguments = made.manifest["spec"]["template"]["spec"]["containers"][0]["args"]
    wanted = ["--role=workers", "--leader-elect", "--leader-election-id=fleet-controllers", SHARDS]
    assert [each for each in arguments if each in wanted] == wanted


async def test_a_stack_gets_members_more_and_fewer_and_none_again() -> None:
    async with Hub.running() as hub, planes(1) as (plane,), hub.operator():
        await hub.configure(scaleMode={"enabled": True})
        await deployed(hub, east=plane)
        assert await _pods(hub) == ALONE
        await _configure(hub, 4)
        await _reach(hub, {**SHARED, CONTROLLERS: (2, False)})
        await _run(hub, WORKERS, 4)
        await _reach(hub, SHARED)
        await eventually(lambda: hub.message("east"), lambda text: "4 members share" in text)
        await _configure(hub, 2)
        await _reach(hub, {**SHARED, WORKERS: (2, True)})
        await _configure(hub, 0)
        await _reach(hub, {WORKERS: (2, True), CONTROLLERS: (2, False)})
        await _run(hub, CONTROLLERS, 2)
        await _reach(hub, ALONE)


async def _configure(hub: Hub, shards: int) -> None:
    """Write the FleetConfig, whose status the operator writes meanwhile."""

    async def write() -> bool:
        try:
            await hub.configure(scaleMode={"enabled": True}, stackPods={"shards": shards})
        except Conflict:
            return False
        return True

    await eventually(write)


async def _run(hub: Hub, workload: str, replicas: int) -> None:
    """Let the Pods of a workload run, all of its present template."""
    mapping = STATEFUL_SET if workload == WORKERS else DEPLOYMENT
    found = await hub.client.get(mapping, workload, namespace="east")
    counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), replicas)
    status = {"observedGeneration": found["metadata"]["generation"], **counts}
    await hub.client.patch_status(mapping, workload, {"status": status}, namespace="east")


async def _reach(hub: Hub, wanted: dict[str, tuple[int, bool]]) -> None:
    await eventually(lambda: _pods(hub), lambda found: found == wanted)


async def _pods(hub: Hub) -> dict[str, tuple[int, bool]]:
    found = {}
    for mapping, name in ((STATEFUL_SET, WORKERS), (DEPLOYMENT, CONTROLLERS)):
        spec = (await hub.client.get(mapping, name, namespace="east"))["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        found[name] = (spec["replicas"], SHARDS in container["args"])
    return found
