"""A fleet with one template that has a rollout, and what tests ask of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from apis.tenancy import RolloutStatus, Tenant, TenantTemplate
from internal.tenancy.sync.tenants import Blueprint
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map, is_ready

UIDS = tuple("abcdefgh")
NAMES = tuple(f"{uid}-app" for uid in UIDS)


def content(value: str) -> dict[str, Any]:
    return {
        "configMaps": [config_map("cm", "{{ uid }}-cm", {"value": value, "plan": "{{ planId }}"})]
    }


def bad_content() -> dict[str, Any]:
    """Content that the server refuses for every tenant."""
    return {"configMaps": [config_map("cm", "{{ uid }}-cm", {"no/key": "x"})]}


async def make(harness: TenancyHarness, **rollout: object) -> Fleet:
    """A fleet whose tenants have the content `one`."""
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    await fleet.registry()
    await put(fleet, content("one"), **rollout)
    await fleet.ready(*NAMES)
    return fleet


async def put(fleet: Fleet, lists: dict[str, Any], **rollout: object) -> None:
    spec = {"registryId": "registry", "rollout": rollout, **lists}
    metadata = {"name": "app", "namespace": fleet.namespace}
    kind = TenantTemplate.mapping()
    head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
    await fleet.harness.put(kind, {**head, "metadata": metadata, "spec": spec})


async def status(
    fleet: Fleet, holds: Callable[[RolloutStatus], bool], *, of_now: bool = True
) -> RolloutStatus:
    """Wait for a status of the rollout of the present content, by default one of the present generation."""

    async def look() -> RolloutStatus | None:
        template = await fleet.read(TenantTemplate, "app")
        current = template.status.observed_generation == template.metadata.generation
        found: RolloutStatus | None = template.status.rollout
        if found is None or found.target_revision != Blueprint.of(template).revision:
            return None
        return found if current or not of_now else None

    seen: RolloutStatus = await fleet.harness.eventually(
        look, lambda found: found is not None and holds(found)
    )
    return seen


async def values(fleet: Fleet) -> dict[str, str]:
    """The value that each tenant's spec has."""
    found = await fleet.harness.client.list(Tenant, fleet.namespace)
    return {
        item.metadata.name or "": item.spec.config_maps[0].spec["data"].get("value", "bad")
        for item in found
    }


async def updated(fleet: Fleet, value: str) -> set[str]:
    return {name for name, seen in (await values(fleet)).items() if seen == value}


@dataclass(slots=True)
class Observer:
    """Follows the tenants of a fleet by a watch and counts those that change at once."""

    revision: str
    most: int = 0
    order: list[str] = field(default_factory=list)
    writes: dict[str, int] = field(default_factory=dict)
    _changing: set[str] = field(default_factory=set)
    _generations: dict[str, int] = field(default_factory=dict)

    def saw(self, tenant: Tenant) -> None:
        name = tenant.metadata.name or ""
        if tenant.spec.template_revision == self.revision:
            return
        generation = tenant.metadata.generation or 0
        if self._generations.get(name) != generation:
            self._generations[name] = generation
            self.order.append(name)
        if is_ready(tenant):
            self._changing.discard(name)
        else:
            self._changing.add(name)
        self.most = max(self.most, len(self._changing))


@contextlib.asynccontextmanager
async def observed(fleet: Fleet) -> AsyncIterator[Observer]:
    """Observe all changes away from the revision that the tenants have now."""
    first = await fleet.read(Tenant, NAMES[0])
    observer = Observer(first.spec.template_revision or "")
    seen = asyncio.Event()

    async def follow() -> None:
        async with aclosing(fleet.harness.client.watch(Tenant, fleet.namespace)) as events:
            async for _, tenant in events:
                observer.saw(tenant)
                seen.set()

    task = asyncio.create_task(follow())
    await seen.wait()
    yield observer
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
