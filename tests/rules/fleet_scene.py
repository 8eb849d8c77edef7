"""`manager operator`, a program of its own, with one data plane: the kinds that the manager does not reconcile."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, Self

from apis.fleet import FleetConfig
from apis.fleet.labels import PARALLEL_PREFIX
from ctrlruntime.client.client import Client
from internal.fleet.stack_bindings import CLUSTER_ROLE_BINDING, ROLE_BINDING
from internal.fleet.stack_builder import SUPPORT, WORKLOADS
from tests.fleet.operator.harness import NAMESPACE, SCALE, Hub, deployed, namespace, planes
from tests.rules.edits import Manifest

TARGET: Final = "east"
PARALLEL: Final = "work"
"""A namespace that takes workloads of the stack."""
FLEET_KINDS: Final = ("FleetConfig",)
"""The product's kinds that the scene has."""
WRITES: Final = frozenset({"create", "update", "patch", "apply", "delete"})


@dataclass(frozen=True, slots=True)
class FleetScene:
    """A hub whose operator has deployed a stack."""

    hub: Hub

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls) -> AsyncIterator[Self]:
        """Start hub, data plane and operator; return when the stack is healthy."""
        async with Hub.running() as hub, planes(1) as (plane,), hub.operator():
            await hub.configure(**SCALE)
            await hub.client.create(namespace(PARALLEL, **{f"{PARALLEL_PREFIX}{TARGET}": "true"}))
            await deployed(hub, **{TARGET: plane})
            yield cls(hub)

    def written(self) -> set[str]:
        entries = self.hub.environment.proxy.log.entries()
        own = [each for each in entries if each.user == self.hub.user and each.verb in WRITES]
        return {each.resource.partition("/")[0] for each in own} - {"events.events.k8s.io"}

    @property
    def client(self) -> Client:
        return self.hub.client

    async def objects(self) -> dict[str, Manifest]:
        """Return what the operator writes: its objects, the namespace and the configuration."""
        found = [await self.client.get(NAMESPACE, TARGET), *await self.custom_resources()]
        for mapping in (*WORKLOADS, *SUPPORT):
            found += await self.client.list(mapping, TARGET)
        found += await self.client.list(CLUSTER_ROLE_BINDING)
        found += await self.client.list(ROLE_BINDING, PARALLEL)
        return {f"{each['kind']}/{each['metadata']['name']}": dict(each) for each in found}

    async def custom_resources(self) -> list[Manifest]:
        """Return the FleetConfig."""
        config: Any = await self.client.get(FleetConfig.gvk(), "fleet")
        return [dict(config)]
