"""Grows disks as they fill: by asking for it in the status, which the set's own controller acts on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from apis.cosmos import CosmosFullNodeSpec, CosmosFullNodeStatus, PVCAutoScale, PVCAutoScaleRequest
from ctrlruntime.api.scalars import Quantity
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client import APIError, StatusClient, TransportError
from internal.cosmos.cache.observation import DiskObservation
from internal.cosmos.comet.usage import DiskUsage
from internal.cosmos.labels import claim_name
from internal.cosmos.selfheal.autoscale import Decision, Disk, Verdict, decide
from internal.cosmos.selfheal.events import Notes, Reason
from internal.cosmos.selfheal.metrics import SelfHealMetrics
from internal.cosmos.workload.pod_trouble import lacks_space

Statuses = StatusClient[CosmosFullNodeSpec, CosmosFullNodeStatus]
Requests = Mapping[str, PVCAutoScaleRequest]
"""What was last asked for, by claim."""

_TROUBLES = (Verdict.CANNOT_EXPAND, Verdict.INVALID)


class Usages(Protocol):
    """What the disks of a set were last said to be used, from memory."""

    def disks(self, namespace: str, name: str) -> list[DiskObservation]:
        """One for each node, by ordinal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskHealing:
    """Checks the disks of one set after the other. It sends no request."""

    usages: Usages
    pods_of: Callable[[str, str], Iterable[Entry]]
    """The Pods of a set, from the informer."""
    claims_of: Callable[[str, str], Iterable[Entry]]
    """The claims of a set, from the informer."""
    expandable: Callable[[str], bool | None]
    """Whether claims of a StorageClass can grow."""
    statuses: Statuses
    notes: Notes
    metrics: SelfHealMetrics
    clock: Callable[[], datetime]

    async def heal(self, entry: Entry, policy: PVCAutoScale, requests: Requests) -> None:
        """Ask for larger disks where they are needed.

        `requests` as the cache has them; what is asked for is decided anew on what the server has.
        """
        seen = self.usages.disks(entry.namespace, entry.name)
        self._report_unknown(entry, seen)
        disks = self._joined(entry, seen)
        decisions = self._decide(disks, policy, requests)
        self._report_troubles(entry, decisions)
        if any(each.verdict is Verdict.GROWS for each in decisions.values()):
            await self._request(entry, policy, disks)

    def forget(self, key: tuple[str, str]) -> None:
        """Forget a set (namespace and name) that is gone, or whose disks are not to grow."""
        self.metrics.show_ceilings(key, 0)

    async def _request(self, entry: Entry, policy: PVCAutoScale, disks: Sequence[Disk]) -> None:
        asked: dict[str, Quantity] = {}

        def update(status: CosmosFullNodeStatus) -> None:
            asked.clear()
            known, now = status.self_healing.pvc_auto_scaler, self.clock()
            for claim, decision in self._decide(disks, policy, known).items():
                if decision.size is not None:
                    asked[claim] = decision.size
                    known[claim] = PVCAutoScaleRequest(
                        requested_size=decision.size, requested_at=now
                    )

        try:
            written = await self.statuses.sync_status(
                entry.name, update, namespace=entry.namespace, uid=entry.uid
            )
        except (APIError, TransportError) as error:
            self.metrics.failures.inc()
            text = f"Larger disks could not be asked for, which is tried again: {error}"
            self.notes.failed(entry, Reason.SIGNAL_RESIZE, text)
            return
        if written is not None and asked:
            self.metrics.requests.inc(len(asked))
            sizes = ", ".join(f"{claim} {size}" for claim, size in sorted(asked.items()))
            self.notes.done(entry, Reason.AUTO_SCALE, f"Asked for larger disks: {sizes}")

    def _decide(
        self, disks: Iterable[Disk], policy: PVCAutoScale, requests: Requests
    ) -> dict[str, Decision]:
        now = self.clock()
        return {disk.claim: decide(disk, policy, requests.get(disk.claim), now) for disk in disks}

    def _joined(self, entry: Entry, seen: Iterable[DiskObservation]) -> list[Disk]:
        claims = {claim.name: claim for claim in self.claims_of(entry.namespace, entry.name)}
        pods = self.pods_of(entry.namespace, entry.name)
        stuck = {pod.name for pod in pods if lacks_space(pod)}
        found: list[Disk] = []
        for each in seen:
            name = claim_name(entry.name, each.ordinal)
            claim = claims.get(name)
            usage = each.usage
            # The container that reports the usage starts only once all init containers have ended well. Where it does
            # report one, another file system may be full: a larger disk would not help, and grow again and again.
            if usage is None and each.at is not None and each.pod in stuck:
                usage = DiskUsage(1, 0)
            if usage is None or claim is None or claim.deletion_timestamp is not None:
                continue
            capacity = ((claim.field("status") or {}).get("capacity") or {}).get("storage")
            if capacity:
                storage_class = (claim.field("spec") or {}).get("storageClassName") or ""
                expandable = self.expandable(storage_class) if storage_class else None
                size = Quantity(capacity)
                found.append(Disk(name, usage.percent, size, storage_class, expandable))
        return found

    def _report_unknown(self, entry: Entry, seen: Sequence[DiskObservation]) -> None:
        """One disk whose usage is not known is no news: its node may be about to start."""
        asked = [each for each in seen if each.at is not None]
        failed = [each for each in asked if each.error]
        if failed and len(failed) == len(seen):
            first = failed[0]
            text = f"The usage of none of the disks is known; {first.pod}: {first.error}"
            self.notes.trouble(entry, Reason.COLLECT_USAGE, "", text)
        elif len(failed) < len(asked):
            self.notes.well(entry, Reason.COLLECT_USAGE, "")

    def _report_troubles(self, entry: Entry, decisions: Mapping[str, Decision]) -> None:
        ceilings = [each for each in decisions.values() if each.verdict is Verdict.AT_CEILING]
        self.metrics.show_ceilings(entry.key, len(ceilings))
        for claim, decision in decisions.items():
            if decision.verdict in _TROUBLES:
                text = f"{claim} cannot grow: {decision.detail}"
                if self.notes.trouble(entry, Reason.CANNOT_EXPAND, claim, text):
                    self.metrics.failures.inc()
            else:
                self.notes.well(entry, Reason.CANNOT_EXPAND, claim)
            if decision.verdict is Verdict.AT_CEILING:
                text = f"{claim} is full and as large as selfHeal.pvcAutoScale.maxSize allows: raise it"
                self.notes.trouble(entry, Reason.AT_CEILING, claim, text)
            else:
                self.notes.well(entry, Reason.AT_CEILING, claim)
