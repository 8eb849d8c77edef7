"""The VolumeSnapshot of one time. Pure."""

from apis.cosmos import ScheduledVolumeSnapshot
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import REVISION, Desired
from internal.cosmos.labels import COMPONENT, CREATED_BY, FIELD_MANAGER, HEIGHT, SOURCE
from internal.cosmos.names import to_label_value
from internal.cosmos.snapshots.effects import Create
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT


def source_label(schedule: str) -> str:
    """Value of the label SOURCE."""
    return to_label_value(schedule)


def _labels(schedule: ScheduledVolumeSnapshot) -> dict[str, str]:
    return {
        CREATED_BY: FIELD_MANAGER,
        COMPONENT: type(schedule).gvk().kind,
        SOURCE: source_label(schedule.metadata.name or ""),
    }


def recorded(schedule: ScheduledVolumeSnapshot, snapshot: Entry) -> Desired:
    """Return one that was made, for what is kept of it: its owner, and the labels that it is found by."""
    metadata = {"name": snapshot.name, "namespace": snapshot.namespace}
    return Desired(
        mapping=VOLUME_SNAPSHOT,
        manifest={"metadata": metadata},
        revision=snapshot.annotations.get(REVISION, ""),
        once=True,
        reference=False,
        labels=_labels(schedule),
    )


def build(schedule: ScheduledVolumeSnapshot, create: Create) -> Desired:
    """Return the VolumeSnapshot: it is made once and never changed, and has no owner reference: it outlives who asked for it."""
    gvk = VOLUME_SNAPSHOT.gvk
    noted = {HEIGHT: str(create.height)} if create.height else {}
    manifest = {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "metadata": {
            "name": create.name,
            "namespace": schedule.metadata.namespace,
            **({"annotations": noted} if noted else {}),
            "labels": {
                **create.labels,
                **_labels(schedule),
            },
        },
        "spec": {
            "volumeSnapshotClassName": schedule.spec.volume_snapshot_class_name,
            "source": {"persistentVolumeClaimName": create.claim},
        },
    }
    return Desired(mapping=VOLUME_SNAPSHOT, manifest=manifest, once=True, reference=False)
