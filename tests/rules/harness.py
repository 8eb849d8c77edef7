"""All three systems in one manager, on an embedded API server: where rules over every kind are checked.

    async with Harness.start(folder) as harness:
        name = await harness.accepted(manifest)

Runs of the cloud system are processes that succeed at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Self

import yaml

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.errors import BadRequest, Invalid, NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import LogEntry, Mark
from ctrlruntime.manager import Manager
from tests.cosmos.servers.comet import CometNodes
from tests.cosmos.servers.snapshotcrds import SNAPSHOT_CRDS, snapshot_class
from tests.rules.manager_main import Parts, add_all
from tests.support.manager_harness import ManagerHarness

ROOT = Path(__file__).parent.parent.parent
NAMESPACE = "default"
LIMIT = 180.0
"""Seconds for what takes a fraction of one on an idle machine."""

Manifest = dict[str, Any]
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard"},
    "provisioner": "test.ctrlruntime.dev",
    "allowVolumeExpansion": True,
}


@cache
def crds() -> Mapping[str, Manifest]:
    """Return the product's CRDs by kind, as they are shipped."""
    files = sorted((ROOT / "config" / "crd" / "bases").glob("*.yaml"))
    found = [yaml.load(file.read_text(), yaml.CSafeLoader) for file in files]
    return {crd["spec"]["names"]["kind"]: crd for crd in found}


def mapping_of(kind: str) -> RESTMapping:
    """Return how one of the product's kinds is served."""
    spec = crds()[kind]["spec"]
    gvk = GroupVersionKind(spec["group"], spec["versions"][0]["name"], kind)
    return RESTMapping(gvk, spec["names"]["plural"], spec["scope"] == "Namespaced")


@dataclass(slots=True)
class Harness(ManagerHarness):
    """A server, and a manager with every controller of the product."""

    port: int = 0
    """Where simulated chain nodes answer."""
    parts: Parts = field(default_factory=Parts)
    """What managers are made like."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls, folder: Path, *, nodes: bool = False, manager: bool = True, parts: Parts | None = None
    ) -> AsyncIterator[Self]:
        """Start the server, with simulated nodes if wanted, and the manager, which ends first."""
        async with (
            Environment(proxy=True, folder=folder, nodes=nodes) as env,
            contextlib.AsyncExitStack() as stack,
        ):
            await env.install_crds(*crds().values(), *SNAPSHOT_CRDS)
            await env.client("envtest").create(snapshot_class())
            made = cls(env, folder, parts=parts or Parts())
            if nodes:
                comet = await stack.enter_async_context(CometNodes.start(env.client("envtest")))
                made.port = comet.port
                await env.client("envtest").create(STORAGE_CLASS)
            if manager:
                await made.start_manager()
            try:
                yield made
            finally:
                await made.stop_manager()

    async def add_controllers(self, manager: Manager) -> None:
        add_all(manager, self.folder, self.parts)

    def writes(self, since: Mark | None = None) -> list[LogEntry]:
        """Return the manager's writes since then, events aside."""
        return [
            each
            for each in ManagerHarness.writes(self, since)
            if not each.resource.startswith("events")
        ]

    async def create(self, manifest: Manifest) -> Manifest | None:
        """Create an object under a new name. Returns None if the server refuses it."""
        name = f"x{next(self._numbers)}"
        scope = {"namespace": NAMESPACE} if mapping_of(manifest["kind"]).namespaced else {}
        metadata = {**manifest.get("metadata", {}), "name": name, **scope}
        try:
            return dict(await self.client.create({**manifest, "metadata": metadata}))
        except (Invalid, BadRequest):
            return None

    async def get(
        self, kind: RESTMapping, name: str, namespace: str = NAMESPACE
    ) -> Manifest | None:
        """Return an object, or None."""
        try:
            place = namespace if kind.namespaced else None
            return dict(await self.client.get(kind, name, namespace=place))
        except NotFound:
            return None

    async def settled(
        self, kind: RESTMapping, name: str, limit: float = LIMIT, namespace: str = NAMESPACE
    ) -> Manifest:
        """Wait until the status is of the present generation; return the object as it was last."""
        live: Manifest = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while not is_observed(live):
                    await asyncio.sleep(0.02)
                    live = await self.get(kind, name, namespace=namespace) or {}
        return live

    async def discard(self, kind: RESTMapping, name: str) -> None:
        """Delete an object whatever holds it."""
        place = NAMESPACE if kind.namespaced else None
        with contextlib.suppress(NotFound):
            await self.client.delete(kind, name, namespace=place)
            await self.client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace=place)

    def log_text(self) -> str:
        """Return what the manager has logged."""
        return self.log.read_text(errors="replace")


def is_observed(live: Mapping[str, Any]) -> bool:
    """Whether a status is of the object's generation and has a condition that says how it is."""
    status = live.get("status") or {}
    generation = live.get("metadata", {}).get("generation")
    return status.get("observedGeneration") == generation and bool(verdicts(live))


def is_ready(live: Mapping[str, Any]) -> bool:
    """Whether an object of the product is as wanted, in its present generation."""
    conditions = {
        each["type"]: each["status"]
        for each in (live.get("status") or {}).get("conditions") or ()
        if each.get("observedGeneration") == live["metadata"].get("generation")
    }
    wanted = ("Valid", "Applied") if live.get("kind") == "TenantTemplate" else ("Ready",)
    return all(conditions.get(kind) == "True" for kind in wanted)


def verdicts(live: Mapping[str, Any]) -> list[Manifest]:
    """Return the conditions of the object's generation that say whether it is as wanted."""
    generation = live.get("metadata", {}).get("generation")
    return [
        each
        for each in (live.get("status") or {}).get("conditions") or ()
        if each["type"] in ("Ready", "Valid") and each.get("observedGeneration") == generation
    ]
