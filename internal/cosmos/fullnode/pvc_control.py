"""The claims of the nodes: made with their data, grown, kept or deleted with their nodes."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from apis.cosmos import CosmosFullNode, DataSourceFailure, RetentionPolicy, VolumeClaimTemplate
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.resources import Owner
from internal.cosmos.datasource import DataSources, FoundSource, SourceMissing, SourceReason
from internal.cosmos.fullnode.checks import check_claims, check_increase
from internal.cosmos.fullnode.disk_removals import DiskRemovals
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.events import Note, Reason
from internal.cosmos.fullnode.metadata import image_tag, named, node_ordinals
from internal.cosmos.fullnode.objects import Objects, conflict
from internal.cosmos.fullnode.pvc_builder import build_claims, claim_template, has_claim
from internal.cosmos.labels import claim_name, pod_name
from internal.cosmos.names import to_label_value
from internal.cosmos.volumesnapshots import height_of
from internal.cosmos.workload.claims import ClaimControl, ClaimProgress, Source


@dataclass(frozen=True, slots=True)
class PVCControl:
    """Makes them, lets them grow, and deletes them where nothing is to be kept and the gate permits it."""

    claims: Objects
    control: ClaimControl
    sources: DataSources
    patcher: ObjectPatcher
    """Writes down in the status which disks were permitted to go."""
    clock: Callable[[], datetime]
    """The time that the budget of deletions goes by."""

    async def reconcile(
        self,
        node_set: CosmosFullNode,
        owner: Owner,
        findings: Findings,
        *,
        pods: Collection[str] = (),
        held: str = "",
    ) -> ClaimProgress:
        """One pass. `pods`: names of the nodes' Pods that are there; no disk goes before its Pod.

        Raises InvalidSpec, and the client's errors if a source cannot be looked up.
        """
        check_claims(node_set)
        check_increase(node_set)
        current = self.claims.known(owner, _names(node_set))
        missing = _missing(node_set, {key.name for key in current})
        found, waiting, heights = await self._sources(node_set, missing, findings.notes)
        removals = DiskRemovals(
            node_set,
            self.patcher,
            self.clock,
            list(current.values()),
            used=bool(set(pods) - _with_disk(node_set)),
        )
        await removals.take_back(_names(node_set))
        progress = await self.control.reconcile(
            build_claims(node_set, found, waiting, {**disk_heights(current.values()), **heights}),
            current.values(),
            owner,
            retain=bool(held) or retains(node_set),
            decide=removals.decide,
        )
        progress.hold = removals.hold
        if held and not retains(node_set):
            progress.frozen = len(progress.retained)
        for error in progress.errors:
            findings.append(error)
            if not missing:
                findings.notes.append(Note(Reason.PVC_PATCH_FAILED, str(error)))
        recorded = self.claims.control.recorded(owner)
        for foreign in progress.conflicts:
            why = f"it belongs to {foreign.holder}"
            findings.append(UnrecoverableError(conflict(foreign.desired, why, recorded)))
        metrics, kind = self.claims.metrics, "PersistentVolumeClaim"
        metrics.counted(kind, "create", len(progress.created))
        metrics.counted(kind, "update", len(progress.resized) + len(progress.updated))
        metrics.counted(kind, "delete", len(progress.deleted))
        metrics.counted(kind, "conflict", len(progress.conflicts))
        return progress

    async def _sources(
        self, node_set: CosmosFullNode, missing: Collection[int], notes: list[Note]
    ) -> tuple[dict[str, Source], dict[str, str], dict[str, int]]:
        """Return what the claims that are missing are filled from, why some cannot be made yet, and the heights of the nodes on those disks."""
        heights: dict[str, int] = {}
        found: dict[str, Source] = {}
        waiting: dict[str, str] = {}
        name, namespace = named(node_set), node_set.metadata.namespace or ""
        for ordinal in missing:
            claim = claim_name(name, ordinal)
            template = claim_template(node_set, ordinal)
            try:
                source = await self.sources.find(
                    template, namespace=namespace, instance=pod_name(name, ordinal)
                )
            except SourceMissing as error:
                notes.append(Note(error.reason, f"{claim}: {error}"))
                if not _goes_without(template):
                    waiting[claim] = str(error)
                continue
            if source is not None:
                found[claim] = _as_source(source)
                height = source_height(node_set, source)
                if height is not None:
                    heights[claim] = height
                if template.auto_data_source is not None:
                    text = f"{claim} is made from {source.name}"
                    notes.append(Note(SourceReason.FOUND, text, warning=False))
        return found, waiting, heights


def retains(node_set: CosmosFullNode) -> bool:
    """Whether claims stay when their nodes go.

    Scaling to 0 stops a set: without a policy all its disks stay.
    """
    policy = node_set.spec.volume_retention_policy
    if policy is None:
        return node_set.spec.replicas == 0
    return policy is RetentionPolicy.RETAIN


def _names(node_set: CosmosFullNode) -> list[str]:
    """Names of the claims that are wanted."""
    name = named(node_set)
    return [claim_name(name, each) for each in node_ordinals(node_set) if has_claim(node_set, each)]


def _with_disk(node_set: CosmosFullNode) -> set[str]:
    """Names of the Pods whose disks are wanted."""
    name = named(node_set)
    return {pod_name(name, each) for each in node_ordinals(node_set) if has_claim(node_set, each)}


def _missing(node_set: CosmosFullNode, existing: Collection[str]) -> list[int]:
    """Nodes whose claim is to be made."""
    return [
        ordinal
        for ordinal in node_ordinals(node_set)
        if has_claim(node_set, ordinal) and claim_name(named(node_set), ordinal) not in existing
    ]


def _goes_without(template: VolumeClaimTemplate) -> bool:
    """Whether a claim is made empty if there is nothing to fill it from."""
    auto = template.auto_data_source
    return auto is not None and auto.on_failure is DataSourceFailure.CREATE_EMPTY


def source_height(node_set: CosmosFullNode, source: FoundSource) -> int | None:
    """Return the next height of a node on a disk made from the source.

    It is the recorded one, or else the first of the version whose image the node ran; None if neither is known.
    """
    if source.height is not None:
        return source.height
    versions = node_set.spec.chain.versions
    heights = [
        each.height
        for each in versions
        if source.version and to_label_value(image_tag(each.image)) == source.version
    ]
    return max(heights, default=None)


def disk_heights(claims: Iterable[Entry]) -> dict[str, int]:
    """Return the heights that are recorded on claims, by claim."""
    found = {entry.name: height_of(entry) for entry in claims}
    return {name: height for name, height in found.items() if height is not None}


def _as_source(source: FoundSource) -> Source:
    size = None if source.size is None else str(source.size)
    return Source(reference=source.reference, size=size)
