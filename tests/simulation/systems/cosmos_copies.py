"""Regular copies of a set's disks: a driver that takes its time and fails at times, and which copies may go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from contextvars import Context
from typing import Any, Final

from apis.cosmos import ScheduledVolumeSnapshot
from ctrlruntime.api.scalars import format_time
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from tests.cosmos.servers.snapshotcrds import SNAPSHOT_CRDS, snapshot_class
from tests.simulation.systems.machines import begins_to_go

KEPT: Final = "kept"
COPIES: Final = "copies"
RESOURCE: Final = "volumesnapshots.snapshot.storage.k8s.io"
_NAME: Final = "often"
_FOREIGN: Final = "by-a-user"
_WITHIN: Final = 10_800.0
"""Seconds until there is a new copy: a time or a failure may be noted two hours ahead, and failures delay the next attempt."""
Manifest = dict[str, Any]


class Copies:
    """Schedule, driver, and the user who has a copy of their own. A witness of the simulation."""

    def __init__(self, sim: Simulation, draw: random.Random, node_set: str) -> None:
        self._sim = sim
        self._draw = draw
        self._set = node_set
        self._limit = draw.choice((1, 2, 2))
        self._down = draw.random() < 0.5
        self._fails = 0.15
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Define the kinds, and have a copy made each minute."""
        client = self._sim.client
        await self._sim.install(*SNAPSHOT_CRDS)
        self._sim.shows(self)
        await client.create(snapshot_class())
        spec: Manifest = {
            "fullNodeRef": {"name": self._set},
            "schedule": "* * * * *",
            "volumeSnapshotClassName": "fast",
            "deletePod": self._down,
            "minAvailable": 1,
            "limit": self._limit,
        }
        metadata = {"name": _NAME, "namespace": "default"}
        manifest = {"metadata": metadata, "spec": spec}
        await client.create(ScheduledVolumeSnapshot.from_manifest(manifest))

    async def user_copies(self) -> None:
        """Have a user copy the labels of a copy too."""
        there = self._own()
        if not there or len(there) < len(self._sim.objects(RESOURCE)):
            return
        labels = there[0]["metadata"].get("labels")
        metadata = {"name": _FOREIGN, "namespace": "default", "labels": labels}
        await self._sim.client.create(
            {**{key: there[0][key] for key in ("apiVersion", "kind", "spec")}, "metadata": metadata}
        )

    async def end(self) -> None:
        """Wait for one more copy, and make no more."""
        self._fails = 0.0
        before = {each["metadata"]["name"] for each in self._own()}
        await self._until(lambda: any(_is_ready(each) for each in self._own(besides=before)))
        patch = {"spec": {"suspend": True}}
        await self._sim.client.patch(ScheduledVolumeSnapshot, _NAME, patch, namespace="default")
        await self._until(self._rests)

    def _rests(self) -> bool:
        (schedule,) = self._sim.objects("scheduledvolumesnapshots.cosmos.ctrlruntime.dev")
        complete = sum(map(_is_ready, self._own()))
        return schedule["status"]["phase"] == "Suspended" and 1 <= complete <= self._limit

    async def _until(self, holds: Callable[[], bool]) -> None:
        end = asyncio.get_running_loop().time() + _WITHIN
        while not holds():
            if asyncio.get_running_loop().time() > end:
                names = [each["metadata"]["name"] for each in self._own()]
                self._sim.breaks(COPIES, f"after {_WITHIN:g} s there are {names}")
            await self._sim.sleep(5.0, exactly=True)

    def _own(self, besides: Collection[str] = ()) -> list[Manifest]:
        return [
            each
            for each in self._sim.objects(RESOURCE)
            if each["metadata"]["name"] not in (_FOREIGN, *besides)
        ]

    # -- what it is shown --------------------------------------------------------------------------------

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Have the driver see what is new, and judge what goes."""
        if bucket.resource != RESOURCE:
            return
        name = change.record.name
        if change.type == "ADDED":
            task = asyncio.get_running_loop().create_task(self._copy(name), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif call is not None and call.process is not None and begins_to_go(change):
            self._goes(name, change.record.obj)

    def _goes(self, name: str, obj: Manifest) -> None:
        if name == _FOREIGN:
            self._sim.breaks(KEPT, f"{name} goes, which a user made")
        newer = [each for each in self._own() if each["metadata"]["name"] > name]
        complete = sum(map(_is_ready, newer))
        # The last one goes where it failed: by a clock that jumped it may have, whatever the driver did.
        if _is_ready(obj) and newer and complete < self._limit:
            what = f"{name} goes, and of {self._limit} to be kept {complete} newer ones are ready"
            self._sim.breaks(KEPT, what)

    def answered(self, call: Call) -> None:
        """Leave it: requests alone make no copy."""

    async def _copy(self, name: str) -> None:
        """Take the driver's part: cut, store, or fail."""
        await asyncio.sleep(self._draw.uniform(0.1, 5.0))
        if self._draw.random() < self._fails:
            now = format_time(self._sim.now())
            await self._report(name, {"error": {"message": "no space", "time": now}})
            return
        cut = {"boundVolumeSnapshotContentName": f"of-{name}"}
        await self._report(name, {**cut, "creationTime": format_time(self._sim.now())})
        await asyncio.sleep(self._draw.choice((0.5, 20.0, 90.0)))
        await self._report(name, {"readyToUse": True, "restoreSize": "1Gi"})

    async def _report(self, name: str, status: Manifest) -> None:
        try:
            await self._sim.client.patch(
                VOLUME_SNAPSHOT,
                name,
                {"status": status},
                namespace="default",
                subresource="status",
            )
        except NotFound:
            return


def _is_ready(copy: Manifest) -> bool:
    return (copy.get("status") or {}).get("readyToUse") is True
