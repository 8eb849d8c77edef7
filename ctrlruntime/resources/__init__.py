"""Desired objects: builder, diff and control.

A builder is a pure function from a custom resource to :class:`Desired` objects; :func:`diff` returns
what separates them from what exists; a :class:`Control` brings them about, after checking whose
each object is.
"""

from ctrlruntime.resources.builder_changes import INPUTS, inputs_of
from ctrlruntime.resources.control import Control, UntrackedKind
from ctrlruntime.resources.definitions import Definition, Definitions
from ctrlruntime.resources.deletion import delete_permitted, evidence_of, removal_of, remove_object
from ctrlruntime.resources.desired import Desired, ObjectKey, PatchStrategy, owner_reference
from ctrlruntime.resources.diff import Diff, Foreign, Reason, Settled, Update, diff, difference
from ctrlruntime.resources.drift import missing_leaves
from ctrlruntime.resources.dry_run import DryRunControl, Operation, PlannedWrite
from ctrlruntime.resources.labelled_control import LabelledControl
from ctrlruntime.resources.object_set import SetPolicy, SetResult, reconcile_set
from ctrlruntime.resources.ordinal import ORDINAL, ordinal_of, ordinals
from ctrlruntime.resources.outcome import Action, Outcome
from ctrlruntime.resources.ownership import (
    OWNER,
    OWNER_UID,
    Owner,
    OwnerKey,
    Ownership,
    check_ownership,
    is_controlled,
    owner_key,
)
from ctrlruntime.resources.readiness import Readiness, assess
from ctrlruntime.resources.remote_control import RemoteControl, RemotePlacement
from ctrlruntime.resources.revision import REVISION, canonical, revision, revision_of_bytes

__all__ = [
    "INPUTS",
    "ORDINAL",
    "OWNER",
    "OWNER_UID",
    "REVISION",
    "Action",
    "Control",
    "Definition",
    "Definitions",
    "Desired",
    "Diff",
    "DryRunControl",
    "Foreign",
    "LabelledControl",
    "ObjectKey",
    "Operation",
    "Outcome",
    "Owner",
    "OwnerKey",
    "Ownership",
    "PatchStrategy",
    "PlannedWrite",
    "Readiness",
    "Reason",
    "RemoteControl",
    "RemotePlacement",
    "SetPolicy",
    "SetResult",
    "Settled",
    "UntrackedKind",
    "Update",
    "assess",
    "canonical",
    "check_ownership",
    "delete_permitted",
    "diff",
    "difference",
    "evidence_of",
    "inputs_of",
    "is_controlled",
    "missing_leaves",
    "ordinal_of",
    "ordinals",
    "owner_key",
    "owner_reference",
    "reconcile_set",
    "removal_of",
    "remove_object",
    "revision",
    "revision_of_bytes",
]
