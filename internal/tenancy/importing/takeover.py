"""One write that takes an object over, one that gives it back, one that ends the possibility. Pure.

Nothing of an object but its metadata is written: who owns it, and whose fields they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from apis.tenancy import GROUP
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.intake import DOCUMENT, read_json
from ctrlruntime.resources.applied_fields import FIELDS
from ctrlruntime.resources.desired import Desired, owner_reference
from ctrlruntime.resources.ownership import OWNER, OWNER_UID, Owner, owner_key
from ctrlruntime.resources.revision import REVISION
from internal.tenancy.importing.former import FormerOperator
from internal.tenancy.shared.labels import FIELD_MANAGER, RESOURCE_ID
from internal.tenancy.shared.policies import CREATED_ONCE, DELETION_POLICY, TENANT, TENANT_NAMESPACE

IMPORTED: Final = f"{GROUP}/imported"
"""Annotation of an object that was taken over and not confirmed: whose it was, as JSON."""

MARKS: Final = (OWNER, OWNER_UID, REVISION, FIELDS, RESOURCE_ID, DELETION_POLICY, CREATED_ONCE)
"""Annotations that go when an object is given back."""


def is_taken_over(metadata: Mapping[str, Any]) -> bool:
    """Return whether an object was taken over, and can be given back."""
    return IMPORTED in (metadata.get("annotations") or {})


def is_held_by(
    metadata: Mapping[str, Any], former: FormerOperator, node: Mapping[str, Any]
) -> bool:
    """Return whether an object is that of one tenant of the former operator, by reference or by labels."""
    references = metadata.get("ownerReferences") or ()
    if any(each["uid"] == node["uid"] for each in references):
        return True
    if any(each.get("controller") for each in references):
        return False
    labels = metadata.get("labels") or {}
    return (labels.get(former.label), labels.get(former.namespace_label)) == (
        node["name"],
        node["namespace"],
    )


def takeover_patch(
    metadata: Mapping[str, Any],
    former: FormerOperator,
    node: Mapping[str, Any],
    desired: Desired,
    owner: Owner,
) -> Manifest:
    """Return the merge patch that makes an object our tenant's.

    The revision is left to the manager: its first apply writes what differs, and nothing where all is the same
    but the metadata. Fields change their manager by name, so that it meets no conflict with the former operator.
    """
    references = list(metadata.get("ownerReferences") or ())
    kept = [each for each in references if each["uid"] != node["uid"]]
    gone = [each for each in references if each["uid"] == node["uid"]]
    managers = _renamed(metadata, former.field_manager, FIELD_MANAGER)
    record = {
        "from": former.name,
        "owner": owner_key(former.tenant.gvk, node["name"], namespace=node["namespace"]),
        "ownerReferences": gone,
        **marks_of(metadata, former),
    }
    return _patch(
        metadata,
        references=[*kept, owner_reference(owner)] if desired.reference else kept,
        labels=dict(desired.labels),
        annotations={
            **desired.records,
            OWNER: owner.key,
            OWNER_UID: owner.uid,
            IMPORTED: json.dumps(record, separators=(",", ":")),
        },
        managers=managers,
    )


def undo_patch(
    metadata: Mapping[str, Any], formers: Mapping[str, FormerOperator]
) -> Manifest | None:
    """Return the merge patch that gives an object back; None for one that was not taken over.

    The key of its owner stays, as that of the former operator's tenant: without any mark, an object that this
    manager wrote once would be taken for one that lost its marks, and be repaired. Raises ValueError for a record that cannot be read.
    """
    if not is_taken_over(metadata):
        return None
    present = metadata["annotations"]
    try:
        record = read_json(present[IMPORTED], DOCUMENT)
        former, gone = formers[record["from"]], list(record["ownerReferences"])
        labels, annotations, key = record["labels"], record["annotations"], record["owner"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"the annotation {IMPORTED} cannot be read: {error!r}") from error
    uid = present.get(OWNER_UID)
    kept = [each for each in metadata.get("ownerReferences") or () if each["uid"] != uid]
    return _patch(
        metadata,
        references=[*kept, *gone],
        labels={TENANT: None, TENANT_NAMESPACE: None, **labels},
        annotations={**dict.fromkeys((*MARKS, IMPORTED)), **annotations, OWNER: key},
        managers=_renamed(metadata, FIELD_MANAGER, former.field_manager),
    )


def confirm_patch(metadata: Mapping[str, Any], former: FormerOperator) -> Manifest | None:
    """Return the merge patch that removes the record and what the former operator wrote; None if there is none."""
    if not is_taken_over(metadata):
        return None
    theirs = marks_of(metadata, former)
    return _patch(
        metadata,
        labels=dict.fromkeys(theirs["labels"]),
        annotations=dict.fromkeys((*theirs["annotations"], IMPORTED)),
    )


def marks_of(metadata: Mapping[str, Any], former: FormerOperator) -> dict[str, dict[str, str]]:
    """Return the labels and annotations that the former operator has on an object."""
    return {
        part: {
            name: value
            for name, value in (metadata.get(part) or {}).items()
            if name.partition("/")[0] == former.prefix
        }
        for part in ("labels", "annotations")
    }


def _patch(
    metadata: Mapping[str, Any],
    *,
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None],
    references: list[Any] | None = None,
    managers: list[Any] | None = None,
) -> Manifest:
    """Return a patch of the object as it was read: another one is refused with a conflict."""
    patch: Manifest = {
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "annotations": dict(annotations),
    }
    if labels:
        patch["labels"] = dict(labels)
    if references is not None:
        patch["ownerReferences"] = references or None
    if managers is not None:
        patch["managedFields"] = managers
    return {"metadata": patch}


def _renamed(metadata: Mapping[str, Any], old: str, new: str) -> list[Any] | None:
    """Return the managed fields with applied ones under another name; None if nothing is to be renamed."""
    entries = list(metadata.get("managedFields") or ())
    applied = {each["manager"] for each in entries if each.get("operation") == "Apply"}
    if old == new or old not in applied:
        return None
    kept = [
        each
        for each in entries
        if not (each["manager"] == new and each.get("operation") == "Apply")
    ]
    return [
        {**each, "manager": new}
        if each["manager"] == old and each.get("operation") == "Apply"
        else each
        for each in kept
    ]
