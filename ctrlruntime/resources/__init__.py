"""Desired objects: builder, diff and control.

A builder is a pure function from a custom resource to :class:`Desired` objects; :func:`diff` says
what separates them from what exists; a :class:`Control` brings them about, after checking whose
each object is.
"""

from ctrlruntime.resources.control import Action, Control, Outcome
from ctrlruntime.resources.desired import Desired, ObjectKey, PatchStrategy, owner_reference
from ctrlruntime.resources.diff import Diff, Foreign, Reason, Settled, Update, diff, difference
from ctrlruntime.resources.drift import missing_leaves
from ctrlruntime.resources.ownership import OWNER, OWNER_UID, Owner, Standing, judge, owner_key
from ctrlruntime.resources.readiness import Readiness, assess
from ctrlruntime.resources.revision import REVISION, canonical, revision, revision_of_bytes

__all__ = [
    "OWNER",
    "OWNER_UID",
    "REVISION",
    "Action",
    "Control",
    "Desired",
    "Diff",
    "Foreign",
    "ObjectKey",
    "Outcome",
    "Owner",
    "PatchStrategy",
    "Readiness",
    "Reason",
    "Settled",
    "Standing",
    "Update",
    "assess",
    "canonical",
    "diff",
    "difference",
    "judge",
    "missing_leaves",
    "owner_key",
    "owner_reference",
    "revision",
    "revision_of_bytes",
]
