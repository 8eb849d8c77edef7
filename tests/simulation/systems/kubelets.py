"""What happens to workloads: Deployments become available, and Jobs end, some time after they were written."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.api import format_time
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from tests.tenancy.entries import JOB
from tests.tenancy.harness import DEPLOYMENT

BAD: Final = "bad"
"""What the images begin with that never start."""
_KINDS: Final[dict[str, RESTMapping]] = {"deployments.apps": DEPLOYMENT, "jobs.batch": JOB}
_Place = tuple[str, str, str]
"""Resource, namespace and name."""


@dataclass(slots=True)
class Kubelets:
    """Writes the statuses of workloads, in a process that no fault meets."""

    sim: Simulation
    draws: random.Random
    _changed: asyncio.Queue[_Place] = field(default_factory=asyncio.Queue)

    def start(self) -> None:
        """Begin to look after workloads."""
        self.sim.shows(self)
        self.sim.start("kubelets", self._run)

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Take a change of an object, while it is made."""
        if bucket.resource in _KINDS and change.type != "DELETED":
            self._changed.put_nowait((bucket.resource, change.record.namespace, change.record.name))

    def answered(self, call: Call) -> None:
        """Leave it: requests alone change no workload."""

    async def _run(self) -> None:
        async with Client.connect(Config(host=self.sim.url, user_agent="kubelets")) as client:
            while True:
                place = await self._changed.get()
                await asyncio.sleep(self.draws.choice((0.01, 0.1, 1.0, 3.0)))
                await self._report(client, *place)

    async def _report(self, client: Client, resource: str, namespace: str, name: str) -> None:
        found = [
            each
            for each in self.sim.objects(resource)
            if each["metadata"]["name"] == name and each["metadata"]["namespace"] == namespace
        ]
        if not found:
            return
        before = found[0].get("status") or {}
        status = self._status(resource, found[0])
        if status == before:
            return
        status |= dict.fromkeys(before.keys() - status.keys())
        with contextlib.suppress(NotFound):
            await client.patch_status(
                _KINDS[resource], name, {"status": status}, namespace=namespace
            )

    def _status(self, resource: str, obj: dict[str, Any]) -> dict[str, Any]:
        if resource == "deployments.apps":
            return _of_deployment(obj)
        if (obj.get("status") or {}).get("succeeded"):
            found: dict[str, Any] = obj["status"]
            return found
        now = format_time(self.sim.now())
        conditions = [
            {"type": kind, "status": "True", "reason": "CompletionsReached", "message": "done"}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        return {
            "startTime": now,
            "completionTime": now,
            "succeeded": 1,
            "conditions": [
                {**each, "lastProbeTime": now, "lastTransitionTime": now} for each in conditions
            ],
        }


def _of_deployment(deployment: dict[str, Any]) -> dict[str, Any]:
    spec = deployment["spec"]
    image = spec["template"]["spec"]["containers"][0]["image"]
    wanted = spec.get("replicas", 1)
    ready = 0 if image.startswith(BAD) else wanted
    status = {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": wanted,
        "updatedReplicas": wanted,
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    return {name: value for name, value in status.items() if value}
