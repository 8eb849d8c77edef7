"""The operator, a real process, is killed at every write of a deployment and of a teardown: the end is the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Match
from tests.support.crash_harness import CrashHarness
from tests.tenancy.manager_forkserver import ForkServer

from .harness import (
    OBJECTS,
    SCALE,
    SECRET,
    WORKLOADS,
    DataPlane,
    Hub,
    foreign,
    planes,
)
from .test_bindings import bound, grants, parallel, reads

pytestmark = pytest.mark.slow
BINDINGS = 4
"""To read, to read Secrets in two namespaces, and to write in one."""


@dataclass
class Scene:
    """What outlives operators."""

    hub: Hub
    forkserver: ForkServer
    folder: Path

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path) -> AsyncIterator[Scene]:
        """A hub, and where operators are started from."""
        async with Hub.running(folder) as hub, ForkServer.running() as forkserver:
            yield cls(hub, forkserver, folder)

    @property
    def crashes(self) -> CrashHarness:
        """Operators that follow one another."""
        written = Match(user="operator", verb="write")
        return CrashHarness(
            self.hub.environment.proxy, self.start_manager, self.shown, written, user="operator"
        )

    async def start_manager(self) -> ChildProcess:
        """Start an operator."""
        args = [str(self.hub.environment.kubeconfig("operator"))]
        log = self.folder / "operator.log"
        entry = "tests.fleet.operator.operator_main:main"
        return await self.forkserver.start(args, log=log, entry=entry)

    async def shown(self) -> str:
        """What there is, for messages."""
        return str(await self.hub.config())

    async def is_torn_down(self) -> bool:
        """Whether nothing of the stack is left, and that is reported."""
        left = {"Service other", "ServiceAccount other"}
        return (
            await self.hub.objects("east") == left
            and not await self.hub.is_target("east")
            and await bound(self.hub) == set()
            and await self.hub.reasons() == {}
            and (await self.hub.condition("TeardownComplete"))[0] == "True"
        )

    async def uids(self) -> set[Any]:
        """The UIDs of the workloads."""
        found = [
            await self.hub.client.get(mapping, name, namespace="east")
            for mapping, name, _ in WORKLOADS
        ]
        return {each["metadata"]["uid"] for each in found}


async def prepare(scene: Scene, plane: DataPlane) -> None:
    """Label a namespace; objects of another owner are there already."""
    await scene.hub.configure(**SCALE)
    await parallel(scene.hub, "acme", "east")
    await scene.hub.add("east", plane)
    for manifest in foreign("other", "east"):
        await scene.hub.client.create(manifest)


@pytest.mark.criterion("FLEET-R11")
@pytest.mark.parametrize("first", ["before", "after"])
async def test_r11_killed_at_every_write_of_deployment_and_teardown(
    first: str, tmp_path: Path
) -> None:
    async with Scene.start(tmp_path) as scene, planes(1) as (east,):
        await prepare(scene, east)

        async def deployed() -> bool:
            wanted = OBJECTS | {"Service other", "ServiceAccount other"}
            return (
                await scene.hub.objects("east") == wanted
                and await scene.hub.identity("east") == await east.identity()
                and await bound(scene.hub) == {*reads("east"), *grants("east", "acme")}
                and await scene.hub.reasons() == {"east": "StackNotAvailable"}
            )

        crashes = scene.crashes
        await crashes.crash_until(deployed, first=first)
        assert crashes.kills >= len(OBJECTS) + BINDINGS
        made = await scene.uids()
        again = scene.crashes
        await again.crash_until(deployed, first=first)
        assert (again.kills, await scene.uids()) == (0, made)

        await scene.hub.label("east", None)
        teardown = scene.crashes
        await teardown.crash_until(scene.is_torn_down, first=first)
        assert teardown.kills >= len(OBJECTS) + BINDINGS
        assert await scene.hub.has(SECRET, "data-plane-kubeconfig", "east")
        assert east.proxy.log.counts().writes == 0
