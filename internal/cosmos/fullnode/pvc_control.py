"""The claims of the nodes: made with their data, grown, kept or deleted with their nodes."""

from collections.abc import Collection
from dataclasses import dataclass

from apis.cosmos import CosmosFullNode, DataSourceFailure, RetentionPolicy, VolumeClaimTemplate
from ctrlruntime.controller.failures import UnrecoverableError
from ctrlruntime.resources import Owner
from ctrlruntime.resources.claims import ClaimControl, ClaimProgress, Source
from internal.cosmos.datasource import DataSources, FoundSource, SourceMissing, SourceReason
from internal.cosmos.fullnode.events import Note, Reason
from internal.cosmos.fullnode.findings import Findings
from internal.cosmos.fullnode.metadata import named, node_ordinals
from internal.cosmos.fullnode.objects import Objects, conflict, explained
from internal.cosmos.fullnode.pvc_builder import build_claims, claim_template, has_claim
from internal.cosmos.marks import claim_name, pod_name


@dataclass(frozen=True, slots=True)
class PVCControl:
    """Makes them, lets them grow, and deletes them where nothing is to be kept."""

    claims: Objects
    control: ClaimControl
    sources: DataSources

    async def reconcile(
        self, node_set: CosmosFullNode, owner: Owner, findings: Findings
    ) -> ClaimProgress:
        """One pass. Raises the client's errors if a source cannot be looked up."""
        current = self.claims.of(owner)
        missing = _missing(node_set, {key.name for key in current})
        found, waiting = await self._sources(node_set, missing, findings.notes)
        progress = await self.control.reconcile(
            build_claims(node_set, found, waiting),
            current.values(),
            owner,
            retain=node_set.spec.volume_retention_policy is RetentionPolicy.RETAIN,
        )
        for error in progress.errors:
            findings.append(explained(error))
            if not missing:
                findings.notes.append(Note(Reason.PVC_PATCH_FAILED, str(error)))
        for foreign in progress.conflicts:
            findings.append(
                UnrecoverableError(conflict(foreign.desired, f"it belongs to {foreign.holder}"))
            )
        metrics, kind = self.claims.metrics, "PersistentVolumeClaim"
        metrics.counted(kind, "create", len(progress.created))
        metrics.counted(kind, "update", len(progress.resized) + len(progress.updated))
        metrics.counted(kind, "delete", len(progress.deleted))
        metrics.counted(kind, "conflict", len(progress.conflicts))
        return progress

    async def _sources(
        self, node_set: CosmosFullNode, missing: Collection[int], notes: list[Note]
    ) -> tuple[dict[str, Source], dict[str, str]]:
        """What the claims that are missing are filled from, and why some cannot be made yet."""
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
                if template.auto_data_source is not None:
                    text = f"{claim} is made from {source.name}"
                    notes.append(Note(SourceReason.FOUND, text, warning=False))
        return found, waiting


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


def _as_source(source: FoundSource) -> Source:
    size = None if source.size is None else str(source.size)
    return Source(reference=source.reference, size=size)
