"""The claim of one time, filled from a snapshot. Pure."""

from apis.cosmos import JobRecord, StatefulJob
from ctrlruntime.resources import Desired
from internal.cosmos.datasource import CLAIM, FoundSource
from internal.cosmos.inherited import labels_beside
from internal.cosmos.statefuljob.job_builder import run_labels


def build_claim(job: StatefulJob, record: JobRecord, source: FoundSource) -> Desired:
    """As large as the snapshot needs. Raises ValueError if that size is unknown."""
    if source.size is None:
        raise ValueError(f"VolumeSnapshot {source.name} does not tell its restoreSize")
    template = job.spec.volume_claim_template
    manifest = {
        "apiVersion": CLAIM.gvk.api_version,
        "kind": CLAIM.gvk.kind,
        "metadata": {
            "name": record.name,
            "namespace": job.metadata.namespace,
            "labels": run_labels(job),
        },
        "spec": {
            "accessModes": template.access_modes or ["ReadWriteOnce"],
            "storageClassName": template.storage_class_name,
            "resources": {"requests": {"storage": str(source.size)}},
            "dataSource": dict(source.reference),
        },
    }
    inherited = labels_beside(job.metadata.labels, run_labels(job))
    return Desired(mapping=CLAIM, manifest=manifest, once=True, inherited=inherited)
