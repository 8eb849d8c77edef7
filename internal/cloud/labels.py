"""Labels, annotations and finalizers of the cloud system, and which annotations keep an object from being reconciled."""

from collections.abc import Mapping
from typing import Final

from apis.cloud import GROUP
from ctrlruntime.controller import annotations as annotation_keys

FIELD_MANAGER: Final = "cloud-manager"
"""Field manager of what the Instance controller applies: its subresources."""

FINALIZER: Final = f"{GROUP}/finalizer"
"""On instances: their subresources go first, one after another."""
RUNS_FINALIZER: Final = f"{GROUP}/runs"
"""On subresources: what their tasks made is torn down, and their runs are deleted, before they go."""

INSTANCE: Final = f"{GROUP}/instance"
"""Label of everything that belongs to an instance: its name."""
INSTANCE_TYPE: Final = "instance-type"
"""Label of an instance: internal, trial or production."""
OWNER_UID: Final = f"{GROUP}/owner-uid"
"""Label of a run: the UID of the object that drives it."""
TASK: Final = f"{GROUP}/task"
"""Label of a run: its task."""
RUN_ID: Final = f"{GROUP}/run-id"
"""Label of a run: its id."""
OWNER: Final = f"{GROUP}/owner"
"""Annotation of a run: `<apiVersion> <kind> <name>` of the object that drives it."""
CANCELLED: Final = f"{GROUP}/cancelled"
"""Annotation of a run: when it was cancelled, because it is not needed any more."""

PAUSED: Final = f"{GROUP}/paused"
"""Annotation: "true" keeps new runs from being started for the object (and, of an instance, for its
subresources). What runs is awaited."""
RETRY: Final = f"{GROUP}/retry"
"""Annotation: a new value requests another attempt after a failure; any text."""
ALLOW_VERSION: Final = f"{GROUP}/allow-version"
"""Annotation of an instance: the version that its policy refuses and that a person permits."""
CANCEL: Final = f"{GROUP}/cancel"
"""Annotation of a subresource: the id of a run. It is cancelled, and nothing follows it by itself."""
UNLOCK: Final = f"{GROUP}/unlock"
"""Annotation of a subresource: the id of the orphaned lock of a state, which the next run gives back."""
RECONCILE: Final = f"{GROUP}/reconcile"
"""Annotation of a subresource: a new value requests a run of inputs that are carried out already; any text."""
MISSING_STATE: Final = f"{GROUP}/missing-state"
"""Annotation of an instance: what to do where the Terraform state of what was built is lost, such as
`build-anew-<token>`; the message of the refusal has the token."""
FORMER_CLUSTER: Final = f"{GROUP}/former-cluster"
"""Annotation of an instance: `leave-<id>` leaves its workload in the cluster with that id to itself."""
APPROVED_PLAN: Final = f"{GROUP}/approved-plan"
"""Annotation of a subresource: the digest of the plan that may be applied; no other one may."""
REJECTED_PLAN: Final = f"{GROUP}/rejected-plan"
"""Annotation of a subresource: the digest of the plan that is given up."""
CONTROL_PLANE_MODE: Final = f"{GROUP}/control-plane-mode"
"""Annotation of an instance: "false" takes it, with its subresources, out of management."""

RELEASE_ASSIGNMENT: Final = f"{GROUP}/release-assignment"
"""Annotation of an instance: the version that a FleetRollout assigned, and the change, as JSON."""
APPROVED_WAVES: Final = f"{GROUP}/approved-waves"
"""Annotation of a FleetRollout: `wave=digest` of each approved wave, separated by commas."""
RESUMED_AT: Final = f"{GROUP}/resumed-at"
"""Annotation of a FleetRollout: a time; failures and rollbacks until then do not count."""

DELETION_PROTECTION: Final = f"{GROUP}/deletion-protection"
"""Annotation of a subresource: "true" or "false", as its instance was when it was written last."""
TEARDOWN_APPROVED: Final = f"{GROUP}/teardown-approved"
"""Annotation of a subresource whose instance is missing: its own UID approves the teardown."""

APPROVE_DELETION: Final = f"{GROUP}/approve-deletion"
"""Annotation of a CRD: "true" lets its deletion tear down what its objects made."""

BUNDLE: Final = f"{GROUP}/bundle"
"""Label of a ConfigMap: "true" for one that is part of a bundle; others are not read."""
SUPERSEDED: Final = f"{GROUP}/superseded"
"""Annotation of an upgrade: "true" once another version is wanted. Beside PAUSED, for good."""
ROLLED_BACK: Final = f"{GROUP}/rolled-back"
"""Annotation of a workload: the upgrade that failed and was given up, so that the version from before
it is rolled out again."""

DATABASE_RESTORED: Final = f"{GROUP}/database-restored"
"""Annotation of an Instance: the digest of a migration whose backup from before was restored, so that the version from
before it may be rolled out again."""

CLOUDSQL_MODE: Final = f"{GROUP}/cloudsql-mode"
"""Annotation: blueOnly, bluePrimary, greenOnly or greenPrimary."""
ENABLE_CMEK: Final = f"{GROUP}/enable-cmek"
"""Annotation: encrypt disks with a key of the customer's."""
CMEK_ALGORITHM: Final = f"{GROUP}/cmek-algorithm"
"""Annotation: algorithm of that key."""

CONTROL: Final = frozenset(
    {
        PAUSED,
        RETRY,
        CANCEL,
        UNLOCK,
        RECONCILE,
        APPROVED_PLAN,
        REJECTED_PLAN,
        CONTROL_PLANE_MODE,
        SUPERSEDED,
        DELETION_PROTECTION,
        TEARDOWN_APPROVED,
        RELEASE_ASSIGNMENT,
    }
)
"""Annotations that steer the controllers and are no inputs of a task."""


def pausing_annotation(annotations: Mapping[str, str]) -> str:
    """Return the annotation that keeps new work on the object from starting, or an empty text."""
    if annotations.get(PAUSED, "").lower() == "true":
        return PAUSED
    return annotation_keys.PAUSED if annotation_keys.is_paused(annotations) else ""


def is_paused(annotations: Mapping[str, str]) -> bool:
    """Whether no new work may start for the object."""
    return bool(pausing_annotation(annotations))


def is_superseded_upgrade(annotations: Mapping[str, str]) -> bool:
    """Whether the object is an upgrade to what is no longer wanted."""
    return annotations.get(SUPERSEDED, "").lower() == "true"


def is_extracted(annotations: Mapping[str, str]) -> bool:
    """Whether nothing at all may be written for the instance and its subresources."""
    return annotations.get(CONTROL_PLANE_MODE, "").lower() == "false"
