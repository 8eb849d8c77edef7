"""The manager, a real process, is killed at every write that the life of an Instance takes.

One Instance is made, changed, upgraded and deleted while every manager that is started dies at its
first write, before it reaches the server or after it is committed, until one finds nothing left to
write. Tasks are real processes that outlive it. The end is the same as without a single crash, and no
run is ever made twice.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import Instance, Phase, UpgradeInstanceTask
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Match
from ctrlruntime.generate.discovery import find_kinds, load
from tests.cloud.rbac import embedded
from tests.support.crash_harness import CrashHarness
from tests.tenancy.manager_forkserver import ForkServer

Calm = tuple[list[Any], Counter[tuple[str, ...]]]

KINDS = find_kinds(load(("apis.cloud",)))
NAME, NAMESPACE = "src-1", "default"


@dataclass
class Scene:
    """What outlives managers."""

    environment: Environment
    forkserver: ForkServer
    folder: Path
    words: list[str] = field(default_factory=list)
    crashes: CrashHarness = field(init=False)

    def __post_init__(self) -> None:
        written = Match(user="manager", verb="write", resource="*.cloud.ctrlruntime.dev*")
        self.crashes = CrashHarness(self.environment.proxy, self.start_manager, self.shown, written)

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path) -> AsyncIterator[Scene]:
        async with embedded("manager", folder=folder) as env, ForkServer.running() as forkserver:
            await env.install_crds(*KINDS)
            yield cls(env, forkserver, folder)

    @property
    def client(self) -> Client:
        return self.environment.client("envtest")

    async def start_manager(self) -> ChildProcess:
        args = [
            str(self.environment.kubeconfig("manager")),
            str(self.folder / "runs"),
            str(self.folder / "record"),
        ]
        return await self.forkserver.start(
            args, log=self.folder / "manager.log", entry="tests.cloud.crash.manager_main:main"
        )

    def record(self) -> list[dict[str, Any]]:
        """What the tasks did, in order."""
        path = self.folder / "record"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def shown(self) -> str:
        """What there is, for messages."""
        found = [await self.client.list(kind, NAMESPACE) for kind in KINDS]
        return "\n".join(str(item.to_manifest()) for items in found for item in items)

    # -- what is there -----------------------------------------------------------------------

    async def instance(self) -> Instance | None:
        try:
            return await self.client.get(Instance, NAME, namespace=NAMESPACE)
        except NotFound:
            return None

    async def ready(self) -> bool:
        """Ready for the present spec, in the version that is wanted."""
        found = await self.instance()
        return (
            found is not None
            and found.status.phase is Phase.READY
            and found.status.observed_generation == found.metadata.generation
            and found.status.version == found.spec.wanted_version
        )

    async def gone(self) -> bool:
        return all([not await self.client.list(kind, NAMESPACE) for kind in KINDS])

    async def inventory(self) -> dict[str, Any]:
        """Specs and what was carried out, without times and names of runs."""
        found: dict[str, Any] = {}
        for kind in KINDS:
            for item in await self.client.list(kind, NAMESPACE):
                said = item.to_manifest()
                key = f"{said['kind']}/{said['metadata']['name']}"
                status = said.get("status") or {}
                found[key] = {
                    "spec": said["spec"],
                    "generation": said["metadata"]["generation"],
                    "finalizers": said["metadata"].get("finalizers"),
                    "phase": status.get("phase"),
                    "outputs": status.get("outputs"),
                    "version": status.get("version"),
                    "succeeded": (status.get("succeeded") or {}).get("inputsVersion"),
                    "attempt": (status.get("run") or {}).get("attempt"),
                }
        return found


def manifest(version: str = "5.1.0", machine: str = "n2-standard-8") -> dict[str, Any]:
    blue = {"machineType": machine}
    return {
        "apiVersion": Instance.gvk().api_version,
        "kind": "Instance",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "version": version,
            "infrastructure": {
                "gcp": {"zone": "us-central1-f", "gke": {"blue": blue}},
                "terraform": {},
            },
            "debug": {"enableDeletionProtection": False},
        },
    }


CHANGES: dict[str, dict[str, Any] | None] = {
    "made": manifest(),
    "another machine type": manifest(machine="n2-standard-16"),
    "another version": manifest("5.2.0", "n2-standard-16"),
    "deleted": None,
}


async def a_whole_life(scene: Scene, carry_out: Callable[..., Awaitable[None]]) -> list[Any]:
    """What is there after each change."""
    seen = []
    for change in CHANGES.values():
        if change is None:
            await scene.client.delete(Instance, NAME, namespace=NAMESPACE)
            await carry_out(scene.gone)
        else:
            await scene.client.apply(change, field_manager="people", force=True)
            await carry_out(scene.ready)
        seen.append(await scene.inventory())
    return seen


def begun(scene: Scene) -> Counter[tuple[str, ...]]:
    """How often a task began, by what it was for."""
    return Counter(
        (each["task"], each["operation"], each["inputs"], str(each["attempt"]))
        for each in scene.record()
        if each["word"] == "began"
    )


def most_at_once(scene: Scene) -> int:
    live = most = 0
    for each in scene.record():
        live += 1 if each["word"] == "began" else -1
        most = max(most, live)
    return most


pytestmark = pytest.mark.xdist_group("crashes of cloud")  # the calm life is played once


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Calm:
    """The same life without a crash."""

    async def live() -> Calm:
        async with Scene.start(tmp_path_factory.mktemp("calm")) as scene:
            seen = await a_whole_life(scene, scene.crashes.calm)
            return seen, begun(scene)

    return asyncio.run(live())


@pytest.mark.criterion("SG-27", "SG-20", "SG-01")
def test_a_calm_life_is_as_it_should_be(calm: Calm) -> None:
    seen, runs = calm
    tasks = Counter(task for task, operation, *_ in runs if operation == "Apply")
    assert tasks == {"terraform": 2, "kubernetes": 2, "invariants": 2, "upgrade": 1}
    torn_down = {task for task, operation, *_ in runs if operation == "Teardown"}
    assert torn_down == {"terraform", "kubernetes", "invariants"}
    assert set(runs.values()) == {1}
    assert seen[-1] == {}
    assert any(key.startswith(UpgradeInstanceTask.gvk().kind) for key in seen[2])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.criterion("SG-27", "SG-20", "SG-41", "SG-52")
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_manager_killed_at_every_write_comes_to_the_same_end(
    calm: Calm, tmp_path: Path, first: str
) -> None:
    expected, runs = calm
    async with Scene.start(tmp_path) as scene:

        async def crash(holds: Callable[[], Awaitable[bool]]) -> None:
            await scene.crashes.crash_until(holds, first=first)

        seen = await a_whole_life(scene, crash)
        assert scene.crashes.kills > 20
        for change, there, wanted in zip(CHANGES, seen, expected, strict=True):
            assert there == wanted, change
        assert begun(scene) == runs
        assert most_at_once(scene) == 1
