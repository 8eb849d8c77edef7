"""What a CSI driver and the snapshot controller do: snapshots become ready or fail, claims are bound and grow.

    async with Csi.start(environment.config("nodes")) as csi:
        csi.of_claim("pvc-chain-0").ready_after = 2     # looks, see tick()
        csi.of_snapshot("nightly-202601010000").error = "quota exceeded"
        csi.tick()

Volumes hold nothing: a claim is bound as soon as what it is made from is ready.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from ctrlruntime.api import Quantity
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.api.scalars import format_time
from ctrlruntime.backoff import BackoffOptions
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.options import CacheOptions
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.controller import Controller
from ctrlruntime.controller.reconcile import ReconcileFunc, Result
from ctrlruntime.queue import Request
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT as SNAPSHOT
from tests.cosmos.servers.snapshotcrds import GROUP
from tests.support.manager_harness import make_manager

CLAIM: Final = GroupVersionKind("", "v1", "PersistentVolumeClaim")
PROTECTION: Final = "kubernetes.io/pvc-protection"
NEVER: Final = 1 << 30
EAGER = CacheOptions(
    informers=InformerOptions(
        reflector=ReflectorOptions(backoff=BackoffOptions(cap=2.0)), missing_retry=0.5
    )
)
Manifest = dict[str, Any]


@dataclass(slots=True)
class Behaviour:
    """What becomes of a snapshot or claim. Changes take effect with the next `tick`."""

    ready_after: int = 0
    """Calls of `tick` until it is ready; 0 is at once, NEVER never."""
    cut_after: int = NEVER
    """Calls of `tick` until its moment is recorded, if it is not ready before."""
    error: str = ""
    """It fails, with this message."""
    capacity: str = ""
    """Size of the volume, or of volumes made from the snapshot; default the claim's request."""
    without_size: bool = False
    """The driver does not tell the size of what is restored."""


def _now() -> datetime:
    return datetime.now(UTC)


class Csi:
    """A driver with its snapshot controller, as one manager."""

    def __init__(
        self,
        config: Config,
        *,
        claims: bool = True,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        """`claims`: bind and grow them too, where no simulated nodes do."""
        self.manager = make_manager(config, cache=EAGER, name="csi")
        self.clock = clock
        self.default = Behaviour()
        self._snapshots: dict[str, Behaviour] = {}
        self._claims: dict[str, Behaviour] = {}
        self._first_seen: dict[str, int] = {}
        self._tick = 0
        self._controllers: list[Controller] = []
        self.manager.cache.declare(SNAPSHOT)
        self.manager.cache.declare(CLAIM)
        self._add("csi-snapshots", SNAPSHOT, self._snapshot)
        if claims:
            self._add("csi-claims", CLAIM, self._claim)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls, config: Config, *, claims: bool = True, clock: Callable[[], datetime] = _now
    ) -> AsyncIterator[Self]:
        """Run it in the background."""
        csi = cls(config, claims=claims, clock=clock)
        async with csi.manager.running():
            yield csi

    def of_snapshot(self, name: str) -> Behaviour:
        """What becomes of one snapshot."""
        return self._snapshots.setdefault(name, Behaviour())

    def of_claim(self, name: str) -> Behaviour:
        """What becomes of a claim, and of its snapshots."""
        return self._claims.setdefault(name, Behaviour())

    def tick(self) -> None:
        """Time passes: everything is looked at once more."""
        self._tick += 1
        kinds: tuple[RESTMapping | GroupVersionKind, ...] = (SNAPSHOT, CLAIM)
        for controller, kind in zip(self._controllers, kinds, strict=False):
            for entry in self.manager.cache.informer(kind).store:
                controller.queue.add(Request(entry.name, namespace=entry.namespace), reason="tick")

    def _add(
        self, name: str, kind: RESTMapping | GroupVersionKind, reconcile: ReconcileFunc[Request]
    ) -> None:
        controller = Builder(self.manager).for_(kind, optional=True).named(name).build(reconcile)
        self._controllers.append(controller)

    # -- snapshots --------------------------------------------------------------------------------

    async def _snapshot(self, request: Request) -> None:
        snapshot = self.manager.cache.get(SNAPSHOT, request.name, namespace=request.namespace)
        if snapshot is None or (snapshot.get("status") or {}).get("readyToUse"):
            return
        claim_name = snapshot["spec"]["source"].get("persistentVolumeClaimName", "")
        behaviour = self._snapshots.get(request.name) or self._claims.get(claim_name, self.default)
        uid = snapshot["metadata"]["uid"]
        begun = self._first_seen.setdefault(uid, self._tick)
        if behaviour.error:
            error = {"message": behaviour.error, "time": format_time(self.clock())}
            status: Manifest = {"readyToUse": False, "error": error}
        elif self._tick - begun < behaviour.ready_after:
            status = {"readyToUse": False, "boundVolumeSnapshotContentName": f"snapcontent-{uid}"}
            if self._tick - begun >= behaviour.cut_after:
                known = snapshot.get("status") or {}
                status["creationTime"] = known.get("creationTime") or format_time(self.clock())
        else:
            status = {
                "readyToUse": True,
                "boundVolumeSnapshotContentName": f"snapcontent-{uid}",
                "creationTime": format_time(self.clock()),
                "error": None,
            }
            if not behaviour.without_size:
                status["restoreSize"] = behaviour.capacity or self._size(request, claim_name)
        await self._set_status(SNAPSHOT, snapshot, status)

    def _size(self, request: Request, claim_name: str) -> str:
        claim = self.manager.cache.get(CLAIM, claim_name, namespace=request.namespace) or {}
        requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
        return str(requests.get("storage", "1Gi"))

    # -- claims -----------------------------------------------------------------------------------

    async def _claim(self, request: Request) -> Result | None:
        claim = self.manager.cache.get(CLAIM, request.name, namespace=request.namespace)
        if claim is None:
            return None
        if claim["metadata"].get("deletionTimestamp"):
            await self._let_go(claim["metadata"])
            return None
        behaviour = self._claims.get(request.name, self.default)
        begun = self._first_seen.setdefault(claim["metadata"]["uid"], self._tick)
        bound = (claim.get("status") or {}).get("phase") == "Bound"
        late = self._tick - begun < behaviour.ready_after
        if not bound and (late or behaviour.error):
            return None
        if not bound and not self._source_ready(claim):
            return Result(requeue_after=0.2)
        wanted = behaviour.capacity or claim["spec"]["resources"]["requests"]["storage"]
        has = ((claim.get("status") or {}).get("capacity") or {}).get("storage")
        if bound and has is not None and Quantity(wanted).value <= Quantity(has).value:
            return None
        await self._set_status(CLAIM, claim, {"phase": "Bound", "capacity": {"storage": wanted}})
        return None

    async def _let_go(self, metadata: Manifest) -> None:
        """Nothing mounts it here, so its protection has no use."""
        has = metadata.get("finalizers") or []
        kept = [name for name in has if name != PROTECTION]
        if kept != has:
            patch = {"metadata": {"uid": metadata["uid"], "finalizers": kept or None}}
            with contextlib.suppress(NotFound):
                await self.manager.client.patch(
                    CLAIM, metadata["name"], patch, namespace=metadata["namespace"]
                )

    def _source_ready(self, claim: Manifest) -> bool:
        source = claim["spec"].get("dataSource")
        if source is None:
            return True
        kind = SNAPSHOT if source.get("apiGroup") == GROUP else CLAIM
        found = self.manager.cache.get(
            kind, source["name"], namespace=claim["metadata"]["namespace"]
        )
        status = (found or {}).get("status") or {}
        return bool(status.get("readyToUse")) or status.get("phase") == "Bound"

    async def _set_status(
        self, kind: GroupVersionKind | RESTMapping, obj: Manifest, status: Manifest
    ) -> None:
        has = obj.get("status") or {}
        if all(has.get(key) == value for key, value in status.items()):
            return
        metadata = obj["metadata"]
        with contextlib.suppress(NotFound):
            await self.manager.client.patch(
                kind,
                metadata["name"],
                {"status": status},
                namespace=metadata["namespace"],
                subresource="status",
            )
