"""Definitions of the kinds of `snapshot.storage.k8s.io/v1`, after the API's documentation.

    await environment.install_crds(*SNAPSHOT_CRDS)

The group belongs to Kubernetes, so each names its approval.
"""

from __future__ import annotations

from typing import Any, Final

from ctrlruntime.api.kinds import GroupVersionKind

GROUP: Final = "snapshot.storage.k8s.io"
SNAPSHOT: Final = GroupVersionKind(GROUP, "v1", "VolumeSnapshot")
CLASS: Final = GroupVersionKind(GROUP, "v1", "VolumeSnapshotClass")
CONTENT: Final = GroupVersionKind(GROUP, "v1", "VolumeSnapshotContent")

Schema = dict[str, Any]

APPROVED: Final = "https://github.com/kubernetes-csi/external-snapshotter/pull/814"
TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
NUMBER: Final[Schema] = {"type": "integer", "format": "int64"}
POLICY: Final[Schema] = {"type": "string", "enum": ["Delete", "Retain"]}
SIZE: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    "x-kubernetes-int-or-string": True,
}


def _object(properties: Schema, *required: str, **more: object) -> Schema:
    found: Schema = {"type": "object", "properties": properties, **more}
    return {**found, "required": list(required)} if required else found


def _one_of(*names: str) -> list[Schema]:
    return [{"required": [name]} for name in names]


ERROR: Final = _object({"message": TEXT, "time": MOMENT})


def _definition(
    kind: str,
    plural: str,
    short: tuple[str, ...],
    properties: Schema,
    columns: list[tuple[str, str, str]],
    *,
    namespaced: bool,
    required: tuple[str, ...],
    status: bool,
) -> dict[str, Any]:
    common = {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}}
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _object({**common, **properties}, *required)},
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path} for name, type_, path in columns
        ],
    }
    if status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": APPROVED},
        },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": list(short),
            },
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }


SNAPSHOT_CRD: Final = _definition(
    SNAPSHOT.kind,
    "volumesnapshots",
    ("vs",),
    {
        "spec": _object(
            {
                "source": _object(
                    {"persistentVolumeClaimName": TEXT, "volumeSnapshotContentName": TEXT},
                    oneOf=_one_of("persistentVolumeClaimName", "volumeSnapshotContentName"),
                ),
                "volumeSnapshotClassName": TEXT,
            },
            "source",
        ),
        "status": _object(
            {
                "boundVolumeSnapshotContentName": TEXT,
                "creationTime": MOMENT,
                "error": ERROR,
                "readyToUse": FLAG,
                "restoreSize": SIZE,
                "volumeGroupSnapshotName": TEXT,
            }
        ),
    },
    [
        ("ReadyToUse", "boolean", ".status.readyToUse"),
        ("SourcePVC", "string", ".spec.source.persistentVolumeClaimName"),
        ("RestoreSize", "string", ".status.restoreSize"),
        ("SnapshotClass", "string", ".spec.volumeSnapshotClassName"),
        ("CreationTime", "date", ".status.creationTime"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ],
    namespaced=True,
    required=("spec",),
    status=True,
)

CLASS_CRD: Final = _definition(
    CLASS.kind,
    "volumesnapshotclasses",
    ("vsclass", "vsclasses"),
    {
        "driver": TEXT,
        "deletionPolicy": POLICY,
        "parameters": {"type": "object", "additionalProperties": TEXT},
    },
    [("Driver", "string", ".driver"), ("DeletionPolicy", "string", ".deletionPolicy")],
    namespaced=False,
    required=("deletionPolicy", "driver"),
    status=False,
)

REFERENCE: Final = _object(
    dict.fromkeys(
        ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"), TEXT
    )
)

CONTENT_CRD: Final = _definition(
    CONTENT.kind,
    "volumesnapshotcontents",
    ("vsc", "vscs"),
    {
        "spec": _object(
            {
                "deletionPolicy": POLICY,
                "driver": TEXT,
                "source": _object(
                    {"snapshotHandle": TEXT, "volumeHandle": TEXT},
                    oneOf=_one_of("snapshotHandle", "volumeHandle"),
                ),
                "sourceVolumeMode": TEXT,
                "volumeSnapshotClassName": TEXT,
                "volumeSnapshotRef": REFERENCE,
            },
            "deletionPolicy",
            "driver",
            "source",
            "volumeSnapshotRef",
        ),
        "status": _object(
            {
                "creationTime": NUMBER,
                "error": ERROR,
                "readyToUse": FLAG,
                "restoreSize": {**NUMBER, "minimum": 0},
                "snapshotHandle": TEXT,
                "volumeGroupSnapshotHandle": TEXT,
            }
        ),
    },
    [
        ("ReadyToUse", "boolean", ".status.readyToUse"),
        ("RestoreSize", "integer", ".status.restoreSize"),
        ("DeletionPolicy", "string", ".spec.deletionPolicy"),
        ("Driver", "string", ".spec.driver"),
    ],
    namespaced=False,
    required=("spec",),
    status=True,
)

SNAPSHOT_CRDS: Final = (SNAPSHOT_CRD, CLASS_CRD, CONTENT_CRD)
"""All of them."""


def snapshot_class(name: str = "fast", driver: str = "csi.test") -> dict[str, Any]:
    """A VolumeSnapshotClass."""
    return {
        "apiVersion": CLASS.api_version,
        "kind": CLASS.kind,
        "metadata": {"name": name},
        "driver": driver,
        "deletionPolicy": "Delete",
    }
