"""A controller of the library, as its users write them, with and without a defect; and a story of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from ctrlruntime import (
    BUILTIN,
    ApiModel,
    Builder,
    Client,
    Control,
    Desired,
    GroupVersionKind,
    Manager,
    Owner,
    Resource,
    as_reconciler,
    merge_patch,
)
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.simulation import Simulation

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


class ShopSpec(ApiModel):
    size: int = 1
    address: str = ""


class ShopStatus(ApiModel):
    size: int = 0
    seen: int = 0


class Shop(Resource[ShopSpec, ShopStatus], group="example.com", version="v1"):
    """Something with a size, for which a ConfigMap is kept."""


def shop(name: str) -> Shop:
    """Return a small one."""
    return Shop.from_manifest(
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"size": 1}}
    )


Defect = Callable[[Manager, Shop], Awaitable[Result | None]]


def add_shop(manager: Manager, defect: Defect | None = None) -> None:
    """Add the controller; a defect is done after each reconcile."""
    control = Control(manager.cache, field_manager="shop")

    async def reconcile(found: Shop) -> Result | None:
        if found.metadata.deletion_timestamp:
            return None
        old, meta = found.model_copy(deep=True), found.metadata
        await control.ensure(_content(found), Owner.of(found))
        found.status.size = found.spec.size
        if patch := merge_patch(old, found):
            await manager.client.patch_status(Shop, meta.name, patch, namespace=meta.namespace)
        return None if defect is None else await defect(manager, found)

    builder = Builder(manager).for_(Shop).owns(CONFIG_MAP, track_manager="shop")
    builder.build(as_reconciler(manager.client, Shop, reconcile))


def _content(found: Shop) -> Desired:
    return Desired(
        mapping=CONFIG_MAP,
        manifest={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": found.metadata.name, "namespace": found.metadata.namespace},
            "data": {"size": str(found.spec.size)},
        },
    )


async def story(sim: Simulation, defect: Defect | None = None) -> None:
    """Two shops that change while everything fails."""
    await sim.install(Shop)
    sim.manager(partial(add_shop, defect=defect), replicas=2, leader_election=True)
    for name in "ab":
        await sim.client.create(shop(name))
    async with sim.faults(by_hand=True):
        for size in (2, 3):
            await sim.sleep(5)
            await sim.client.patch(Shop, "a", {"spec": {"size": size}}, namespace="default")
        await sim.sleep(40)
    await sim.settles(within=900)
    await sim.stays_idle(600)


# -- defects -----------------------------------------------------------------------------------------


async def writes_always(manager: Manager, found: Shop) -> None:
    """Write a status that is there already."""
    patch = {"status": {"size": found.status.size}}
    await manager.client.patch_status(
        Shop, found.metadata.name, patch, namespace=found.metadata.namespace
    )


async def flaps(manager: Manager, found: Shop) -> None:
    """Set a field to and fro."""
    patch = {"data": {"size": "0"}}
    await manager.client.patch(
        CONFIG_MAP, found.metadata.name, patch, namespace=found.metadata.namespace
    )


async def polls(manager: Manager, found: Shop) -> Result:
    """Write now and then although nothing happened."""
    seen = int(utc_now().timestamp()) // 300
    if found.status.seen != seen:
        patch = {"status": {"seen": seen}}
        await manager.client.patch_status(
            Shop, found.metadata.name, patch, namespace=found.metadata.namespace
        )
    return Result(requeue_after=300)


async def watches_anew(manager: Manager, found: Shop) -> Result:
    """Watch for a second, again and again."""
    async for _ in manager.client.watch(Shop, found.metadata.namespace, timeout=1):
        pass
    return Result(requeue_after=9)


async def remembers(manager: Manager, found: Shop) -> None:
    """Write what only this process has seen: the first generation."""
    firsts = manager.__dict__.setdefault("firsts", {})
    first = firsts.setdefault(found.metadata.name, found.metadata.generation)
    if found.status.seen != first:
        patch = {"status": {"seen": first}}
        await manager.client.patch_status(
            Shop, found.metadata.name, patch, namespace=found.metadata.namespace
        )


async def goes_past_the_fence(manager: Manager, found: Shop) -> None:
    """Write later, in a task of its own, with a client that does not look at the lease."""
    size = str(found.spec.size)
    if (found.metadata.annotations or {}).get("size") == size:
        return

    async def write_later() -> None:
        await asyncio.sleep(4)
        async with Client.connect(manager.config) as client:
            patch = {"metadata": {"annotations": {"size": size}}}
            await client.patch(Shop, found.metadata.name, patch, namespace=found.metadata.namespace)

    tasks = manager.__dict__.setdefault("tasks", [])
    tasks.append(asyncio.create_task(write_later()))


async def gives_up(manager: Manager, found: Shop) -> None:
    """Try something once, whatever comes of it."""
    if found.status.seen == found.metadata.generation:
        return
    name, namespace = found.metadata.name, found.metadata.namespace
    patch = {"status": {"seen": found.metadata.generation}}
    await manager.client.patch_status(Shop, name, patch, namespace=namespace)
    await manager.client.patch(
        Shop, name, {"metadata": {"labels": {"size": str(found.spec.size)}}}, namespace=namespace
    )


async def ends(manager: Manager, found: Shop) -> None:
    """End the program where an error in one reconcile would do."""
    manager.stop()
