"""Desired objects: builder, diff and control.

A builder is a pure function from a custom resource to :class:`Desired` objects; :func:`diff` says
what separates them from what exists; a :class:`Control` brings them about, after checking whose
each object is. Workloads of numbered instances, each a Pod with a claim of its own, are brought about by
:class:`WorkloadControl` and :class:`ClaimControl`.
"""

from ctrlruntime.resources.builder_changes import INPUTS, inputs_of
from ctrlruntime.resources.checksums import (
    CONFIG_CHECKSUM,
    checksum_in_effect,
    checksummed,
    combined,
    content_checksum,
    with_checksum,
)
from ctrlruntime.resources.claims import (
    Claim,
    ClaimControl,
    ClaimProgress,
    Immutable,
    Source,
    StorageClasses,
    requested_size,
)
from ctrlruntime.resources.control import Action, Control, Outcome
from ctrlruntime.resources.desired import Desired, ObjectKey, PatchStrategy, owner_reference
from ctrlruntime.resources.diff import Diff, Foreign, Reason, Settled, Update, diff, difference
from ctrlruntime.resources.drift import missing_leaves
from ctrlruntime.resources.ordinal import ORDINAL, ordinal_of, ordinals
from ctrlruntime.resources.overrides import Disable, Override, override_claim, override_pod
from ctrlruntime.resources.ownership import OWNER, OWNER_UID, Owner, Standing, judge, owner_key
from ctrlruntime.resources.plan import Plan, Urgent, plan
from ctrlruntime.resources.probe import Health, Probe, pod_readiness
from ctrlruntime.resources.readiness import Readiness, assess
from ctrlruntime.resources.revision import REVISION, canonical, revision, revision_of_bytes
from ctrlruntime.resources.rollout import compute_rollout, tolerated
from ctrlruntime.resources.workload import Progress, WorkloadControl

__all__ = [
    "CONFIG_CHECKSUM",
    "INPUTS",
    "ORDINAL",
    "OWNER",
    "OWNER_UID",
    "REVISION",
    "Action",
    "Claim",
    "ClaimControl",
    "ClaimProgress",
    "Control",
    "Desired",
    "Diff",
    "Disable",
    "Foreign",
    "Health",
    "Immutable",
    "ObjectKey",
    "Outcome",
    "Override",
    "Owner",
    "PatchStrategy",
    "Plan",
    "Probe",
    "Progress",
    "Readiness",
    "Reason",
    "Settled",
    "Source",
    "Standing",
    "StorageClasses",
    "Update",
    "Urgent",
    "WorkloadControl",
    "assess",
    "canonical",
    "checksum_in_effect",
    "checksummed",
    "combined",
    "compute_rollout",
    "content_checksum",
    "diff",
    "difference",
    "inputs_of",
    "judge",
    "missing_leaves",
    "ordinal_of",
    "ordinals",
    "override_claim",
    "override_pod",
    "owner_key",
    "owner_reference",
    "plan",
    "pod_readiness",
    "requested_size",
    "revision",
    "revision_of_bytes",
    "tolerated",
    "with_checksum",
]
