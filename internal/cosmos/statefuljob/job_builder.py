"""The Job of one time, its name, and its claim, which is filled from a snapshot. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from apis.cosmos import JobRecord, StatefulJob
from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import Desired
from internal.cosmos.datasource import CLAIM, FoundSource
from internal.cosmos.inherited import labels_beside
from internal.cosmos.labels import COMPONENT, CREATED_BY, FIELD_MANAGER, NAME
from internal.cosmos.names import LONGEST_LABEL, to_label_value, trim_middle

JOB: Final = BUILTIN[GroupVersionKind("batch", "v1", "Job")]
VOLUME: Final = "snapshot"
"""Name of the volume that is added to the Pod."""
_STAMP: Final = "%Y%m%d%H%M%S"
_LONGEST: Final = LONGEST_LABEL - len("-20260101000000")


def run_name(name: str, scheduled_at: datetime) -> str:
    """Name of Job and claim for one time; it fits into the label that Jobs put on their Pods."""
    return f"{trim_middle(name, _LONGEST)}-{scheduled_at.astimezone(UTC).strftime(_STAMP)}"


def run_labels(job: StatefulJob) -> dict[str, str]:
    """Labels of Job and claim."""
    return {
        CREATED_BY: FIELD_MANAGER,
        COMPONENT: type(job).gvk().kind,
        NAME: to_label_value(job.metadata.name or ""),
    }


def mounts_copy(job: StatefulJob) -> bool:
    """Whether a container of the template mounts the copy."""
    spec = job.spec.pod_template.spec
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    mounts = (mount for each in containers for mount in each.get("volumeMounts") or ())
    return any(mount.get("name") == VOLUME for mount in mounts)


def build_job(job: StatefulJob, record: JobRecord) -> Desired:
    """Made once, never changed: a new spec is for the next time."""
    template, settings = job.spec.pod_template, job.spec.job_template
    volumes = [each for each in template.spec.get("volumes") or [] if each.get("name") != VOLUME]
    disk = {"name": VOLUME, "persistentVolumeClaim": {"claimName": record.name}}
    manifest = {
        "apiVersion": JOB.gvk.api_version,
        "kind": JOB.gvk.kind,
        "metadata": {
            "name": record.name,
            "namespace": job.metadata.namespace,
            "labels": run_labels(job),
        },
        "spec": {
            "activeDeadlineSeconds": settings.active_deadline_seconds,
            "backoffLimit": settings.backoff_limit,
            "ttlSecondsAfterFinished": settings.ttl_seconds_after_finished,
            "template": {
                "metadata": {
                    "labels": {**template.metadata.labels, **run_labels(job)},
                    "annotations": dict(template.metadata.annotations),
                },
                "spec": {
                    "restartPolicy": "Never",
                    **template.spec,
                    "volumes": [*volumes, disk],
                },
            },
        },
    }
    labels = run_labels(job)
    return Desired(
        mapping=JOB,
        manifest=manifest,
        ordinal=1,
        once=True,
        labels=labels,
        inherited=labels_beside(job.metadata.labels, labels),
    )


def build_claim(job: StatefulJob, record: JobRecord, source: FoundSource) -> Desired:
    """As large as the snapshot needs. Raises ValueError if that size is unknown."""
    if source.size is None:
        raise ValueError(f"VolumeSnapshot {source.name} does not tell its restoreSize")
    return _claim(job, record, source.reference, str(source.size))


def recorded_claim(job: StatefulJob, record: JobRecord, claim: Entry | None) -> Desired:
    """Return the claim as it was made, by what is left of it: for its metadata only, which is all that is kept.

    Its snapshot may be gone by now.
    """
    spec = (None if claim is None else claim.field("spec")) or {}
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage") or ""
    return _claim(job, record, spec.get("dataSource") or {}, str(size))


def _claim(job: StatefulJob, record: JobRecord, reference: Mapping[str, Any], size: str) -> Desired:
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
