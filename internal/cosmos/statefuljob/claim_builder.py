"""The claim of one time, filled from a snapshot. Pure."""

from collections.abc import Mapping
from typing import Any

from apis.cosmos import JobRecord, StatefulJob
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import Desired
from internal.cosmos.datasource import CLAIM, FoundSource
from internal.cosmos.inherited import labels_beside
from internal.cosmos.statefuljob.job_builder import run_labels


def build_claim(job: StatefulJob, record: JobRecord, source: FoundSource) -> Desired:
    """As large as the snapshot needs. Raises ValueError if that size is unknown."""
    if source.size is None:
        raise ValueError(f"VolumeSnapshot {source.name} does not tell its restoreSize")
    return _desired(job, record, source.reference, str(source.size))


def recorded_claim(job: StatefulJob, record: JobRecord, claim: Entry | None) -> Desired:
    """Return the claim as it was made, by what is left of it: for its metadata only, which is all that is kept.

    Its snapshot may be gone by now.
    """
    spec = (None if claim is None else claim.field("spec")) or {}
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage") or ""
    return _desired(job, record, spec.get("dataSource") or {}, str(size))


def _desired(
    job: StatefulJob, record: JobRecord, reference: Mapping[str, Any], size: str
) -> Desired:
    template = job.spec.volume_claim_template
    labels = run_labels(job)
    manifest = {
        "apiVersion": CLAIM.gvk.api_version,
        "kind": CLAIM.gvk.kind,
        "metadata": {
            "name": record.name,
            "namespace": job.metadata.namespace,
            "labels": labels,
        },
        "spec": {
            "accessModes": template.access_modes or ["ReadWriteOnce"],
            "storageClassName": template.storage_class_name,
            "resources": {"requests": {"storage": size}},
            "dataSource": dict(reference),
        },
    }
    return Desired(
        mapping=CLAIM,
        manifest=manifest,
        once=True,
        labels=labels,
        inherited=labels_beside(job.metadata.labels, labels),
    )
