"""Machines of a simulated cluster: they run Pods, each on the disks it mounts, and the nodes of chains in them.

What happens is the truth that a story's rules go by. Objects of the API server show it with a delay, as a
kubelet's do, and containers of a Pod that is removed by force go on for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import traceback
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.errors import APIError, NotFound
from ctrlruntime.envtest.nodes import podstatus
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from tests.cosmos.servers.comet import GIB, CometNodes

POD: Final = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM: Final = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
RPC: Final = 26657
HEALTH: Final = 1251
ONE_DISK: Final = "one disk"
PROTECTION: Final = "kubernetes.io/pvc-protection"
CLASS_OF_DISKS: Final = "standard"
_READINESS: Final = 10.0
"""Seconds until a kubelet has a Pod unready whose node does not answer."""
Manifest = dict[str, Any]


@dataclass(slots=True)
class Running:
    """The containers of one Pod."""

    name: str
    uid: str
    image: str
    claims: tuple[str, ...]
    """UIDs of the claims that it writes to."""
    sites: list[web.TCPSite] = field(default_factory=list)


class Machines:
    """Scheduler, kubelets and disks. A witness of the simulation; ``nodes`` is what the nodes of chains say."""

    def __init__(self, sim: Simulation, draw: random.Random, nodes: CometNodes) -> None:
        self.nodes = nodes
        self.running: dict[str, Running] = {}
        """By UID of the Pod."""
        self.fails: set[str] = set()
        """Images that cannot be pulled."""
        self.up: dict[str, bool] = {}
        """Whether the node of each Pod works, by name."""
        self.since: dict[str, float] = {}
        """Since when that is so, on the loop's clock."""
        self.told: Callable[[str], None] = lambda _name: None
        """Called with the name of a node that works, or works no more."""
        self.slowest_start = draw.choice((1.0, 6.0, 20.0))
        self._sim = sim
        self._draw = draw
        self._runner: web.AppRunner | None = None
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._addresses: dict[str, str] = {}
        self._catching_up = draw.choice((0.0, 5.0, 25.0))

    async def start(self) -> None:
        """Begin to run Pods."""
        self._runner = await self.nodes.runner()
        self._sim.shows(self)

    def suffers(self, name: str, **said: object) -> None:
        """Let a node say something else from now on: fields of a CometNode."""
        node = self.nodes.node(name)
        for key, value in said.items():
            setattr(node, key, value)
        self._look(name)
        if said.get("hangs"):
            for each in [each for each in self.running.values() if each.name == name]:
                self._begin(self._hangs(each))

    def heal(self) -> None:
        """Let all nodes work that run, and all images be pulled; what a restart mends stays."""
        self.fails.clear()
        for name in list(self.up):
            self.suffers(name, catching_up=False, unreachable=False, network=None)

    def _look(self, name: str) -> None:
        """Note whether a node works."""
        node = self.nodes.node(name)
        runs = any(each.name == name for each in self.running.values())
        is_up = runs and not (node.catching_up or node.unreachable or node.network or node.hangs)
        if self.up.get(name) != is_up:
            self.up[name], self.since[name] = is_up, self._loop.time()
            self.told(name)

    # -- what is seen ---------------------------------------------------------------------------------

    def changed(self, _call: Call | None, bucket: Bucket, change: Change) -> None:
        """Run what is new, end what is to go."""
        obj = change.record.obj
        if bucket.resource == "pods":
            self._pod_changed(change, obj["metadata"])
        elif bucket.resource == "persistentvolumeclaims":
            if change.type == "MODIFIED" and obj["metadata"].get("deletionTimestamp"):
                self._begin(self._let_go(obj["metadata"]["name"]))
            elif change.type != "DELETED":
                self._begin(self._bind(obj["metadata"]["name"]))

    def answered(self, call: Call) -> None:
        """Leave it."""

    def _pod_changed(self, change: Change, metadata: Manifest) -> None:
        name, uid = metadata["name"], metadata["uid"]
        if change.type == "ADDED":
            self._begin(self._run(name, uid))
        elif change.type == "DELETED":
            self._begin(self._end(name, uid))
        elif metadata.get("deletionTimestamp") and not _is_going(change):
            self._begin(self._stop(name, uid))

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._sim.breaks("machines", "".join(traceback.format_exception(error)[-3:]))

    # -- Pods -------------------------------------------------------------------------------------------

    async def _run(self, name: str, uid: str) -> None:
        await asyncio.sleep(self._draw.uniform(0.1, self.slowest_start))
        while (pod := await self._pod(name, uid)) is not None:
            claims = await self._claims(pod)
            if claims is not None and pod["spec"].get("nodeName"):
                break
            if claims is not None:
                await self._assign(name)
            await asyncio.sleep(1.0)
        if pod is None or claims is None:
            return
        image = image_of(pod)
        while image in self.fails:
            await self._report(name, podstatus.waiting(pod, self._sim.now(), "ImagePullBackOff"))
            await asyncio.sleep(5.0)
            if (pod := await self._pod(name, uid)) is None:
                return
        others = [each for each in self.running.values() if {*claims} & {*each.claims}]
        if others:
            self._sim.breaks(ONE_DISK, f"{name} starts on the disk that {others[0].name} runs on")
        if not claims or others:
            return
        run = self.running[uid] = Running(name, uid, image, claims)
        await self._listen(run)
        self.suffers(name, catching_up=self._catching_up > 0, hangs=False, behind=0)
        self._loop.call_later(
            self._draw.uniform(0.0, self._catching_up), self._caught_up, uid, context=Context()
        )
        status = podstatus.running(pod, self._sim.now())
        await self._report(name, podstatus.with_address(status, self._address(name)))

    async def _hangs(self, run: Running) -> None:
        """Have a Pod unready whose node does not answer the kubelet either."""
        await asyncio.sleep(_READINESS)
        pod = await self._pod(run.name, run.uid)
        if pod is not None and self.nodes.node(run.name).hangs:
            status = podstatus.running(pod, self._sim.now(), ready=False)
            await self._report(run.name, podstatus.with_address(status, self._address(run.name)))

    async def _pod(self, name: str, uid: str) -> Manifest | None:
        """Return a Pod that is wanted, or None."""
        try:
            found = await self._sim.client.get(POD, name, namespace="default")
        except NotFound:
            return None
        metadata = found["metadata"]
        return None if metadata["uid"] != uid or metadata.get("deletionTimestamp") else found

    async def _claims(self, pod: Manifest) -> tuple[str, ...] | None:
        """Return the UIDs of the claims that it mounts; None if one cannot be mounted yet."""
        uids = []
        for volume in pod["spec"].get("volumes") or ():
            if not (source := volume.get("persistentVolumeClaim")):
                continue
            try:
                claim = await self._sim.client.get(CLAIM, source["claimName"], namespace="default")
            except NotFound:
                return None
            if (claim.get("status") or {}).get("phase") != "Bound":
                return None
            if claim["metadata"].get("deletionTimestamp"):
                return None
            uids.append(claim["metadata"]["uid"])
        return tuple(uids)

    async def _assign(self, name: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": "default"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "machine"},
        }
        with contextlib.suppress(APIError):
            await self._sim.client.create_subresource(
                POD, name, "binding", binding, namespace="default"
            )

    def _address(self, name: str) -> str:
        if name not in self._addresses:
            self._addresses[name] = f"10.0.0.{len(self._addresses) + 1}"
            self.nodes.place(self._addresses[name], name)
        return self._addresses[name]

    async def _listen(self, run: Running) -> None:
        assert self._runner is not None
        for port in (RPC, HEALTH):
            site = web.TCPSite(self._runner, self._address(run.name), port)
            await site.start()
            run.sites.append(site)

    async def _report(self, name: str, status: Manifest) -> None:
        with contextlib.suppress(NotFound):
            await self._sim.client.patch(
                POD, name, {"status": status}, namespace="default", subresource="status"
            )

    async def _stop(self, name: str, uid: str) -> None:
        """End a Pod in order, and let its object go."""
        await asyncio.sleep(self._draw.uniform(0.1, 8.0))
        await self._close(uid)
        with contextlib.suppress(APIError):
            await self._sim.client.delete(
                POD, name, namespace="default", uid=uid, grace_period=0, propagation="Background"
            )

    async def _end(self, _name: str, uid: str) -> None:
        """End the containers of a Pod that is gone: at once if they have ended before."""
        if uid in self.running:
            await asyncio.sleep(self._draw.uniform(1.0, 5.0))
            await self._close(uid)

    async def _close(self, uid: str) -> None:
        run = self.running.pop(uid, None)
        if run is not None:
            self._look(run.name)
            for site in run.sites:
                await site.stop()

    def _caught_up(self, uid: str) -> None:
        if (run := self.running.get(uid)) is not None:
            self.suffers(run.name, catching_up=False)

    # -- disks ------------------------------------------------------------------------------------------

    async def _bind(self, name: str) -> None:
        await asyncio.sleep(self._draw.uniform(0.1, 2.0))
        with contextlib.suppress(NotFound):
            claim = await self._sim.client.get(CLAIM, name, namespace="default")
            wanted = {"storage": claim["spec"]["resources"]["requests"]["storage"]}
            status = claim.get("status") or {}
            if (status.get("phase"), status.get("capacity")) == ("Bound", wanted):
                return
            if status.get("phase") == "Bound":  # it grows, and what is on it stays
                node = self.nodes.node(name.removeprefix("pvc-"))
                node.disk_total += GIB
                node.disk_free += GIB
            patch = {"status": {"phase": "Bound", "capacity": wanted}}
            await self._sim.client.patch(
                CLAIM, name, patch, namespace="default", subresource="status"
            )

    async def _let_go(self, name: str) -> None:
        """Take the protection of a claim away once no Pod mounts it."""
        while True:
            await asyncio.sleep(self._draw.uniform(0.1, 2.0))
            try:
                claim = await self._sim.client.get(CLAIM, name, namespace="default")
            except NotFound:
                return
            pods = await self._sim.client.list(POD, "default")
            if not any(name in mounted(pod) for pod in pods):
                break
        has = claim["metadata"].get("finalizers") or []
        kept = [each for each in has if each != PROTECTION]
        with contextlib.suppress(APIError):
            patch = {"metadata": {"uid": claim["metadata"]["uid"], "finalizers": kept or None}}
            await self._sim.client.patch(CLAIM, name, patch, namespace="default")


def image_of(pod: Manifest) -> str:
    """Return the image that the node of a Pod runs."""
    images = (each["image"] for each in pod["spec"]["containers"] if each["name"] == "node")
    return str(next(images, ""))


def mounted(pod: Manifest) -> Iterable[str]:
    """Return the names of the claims that a Pod mounts."""
    for volume in pod["spec"].get("volumes") or ():
        if source := volume.get("persistentVolumeClaim"):
            yield source["claimName"]


def begins_to_go(change: Change) -> bool:
    """Whether an object is deleted, or is to go from now on."""
    if _is_going(change):
        return False
    return change.type == "DELETED" or bool(change.record.obj["metadata"].get("deletionTimestamp"))


def _is_going(change: Change) -> bool:
    before = change.previous
    return before is not None and bool(before.obj["metadata"].get("deletionTimestamp"))
