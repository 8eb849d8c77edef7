"""How a Tenant is moved from one data plane to another: which step is next, from what there is. Pure.

Each step is one observation of both data planes and the hub, and at most one kind of write: a move that was interrupted
goes on where it was. What is recorded is on the Tenants: `fleet.ctrlruntime.dev/moving-to` on both until the new
one has the objects of the hub, `fleet.ctrlruntime.dev/moved-from` on the new one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from apis.fleet.labels import DATA_PLANE, MOVED_FROM, MOVING_TO
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.controller.annotations import PAUSED, is_paused
from ctrlruntime.resources import OWNER, OWNER_UID, OwnerKey
from ctrlruntime.resources.ownership import Owner

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Step(StrEnum):
    """What is to be done next; the value is reported."""

    PAUSE = "pausing the Tenant on its data plane"
    AWAIT_PAUSE = "waiting until its stack has stopped work on it"
    COPY = "creating it on the other data plane, paused"
    HAND_OVER = "handing its objects of the hub over"
    RESUME = "letting the other stack reconcile it"
    AWAIT_ADOPTION = "waiting until the other stack has adopted its objects"
    DELETE = "deleting the Tenant that is left"
    RELEASE = "letting the former stack remove what is on its data plane"
    AWAIT_END = "waiting until the Tenant that is left is gone"
    DONE = "moved"


class MoveRefused(Exception):
    """A move cannot be made; nothing was changed by the step."""


@dataclass(frozen=True, slots=True)
class MoveState:
    """What there is of one Tenant."""

    source: str
    """The id of the data plane that it leaves."""
    target: str
    """The id of the data plane that it goes to."""
    left: Manifest | None
    """The Tenant on the one."""
    made: Manifest | None
    """The Tenant on the other."""
    left_owners: Sequence[str] = ()
    """For each object of the hub that records the former Tenant, the UID of its owner; may be empty."""
    made_owners: Sequence[str] = ()
    """The same of the new one."""


def next_step(state: MoveState) -> Step:
    """Return what is to be done next. Raises MoveRefused, with what to do."""
    left, made = state.left, state.made
    if made is not None and _annotations(made).get(MOVED_FROM) != state.source:
        raise MoveRefused(
            "the other data plane has a Tenant of this name that was not moved from here; rename or delete one of the two"
        )
    if left is None:
        if made is None:
            raise MoveRefused("neither data plane has such a Tenant; check name and namespace")
        return _finish(state, made)
    annotations = _annotations(left)
    if MOVING_TO not in annotations:
        _check_movable(left, made)
        return Step.PAUSE
    if annotations[MOVING_TO] != state.target:
        raise MoveRefused(
            f"it is being moved to data plane {annotations[MOVING_TO]}; let that move end first"
        )
    if left["metadata"].get("deletionTimestamp"):
        return Step.RELEASE if is_paused(annotations) else Step.AWAIT_END
    if not _has_condition(left, "Paused"):
        return Step.AWAIT_PAUSE
    if made is None:
        return Step.COPY
    step = _finish(state, made)
    if step is not Step.DONE:
        return step
    return Step.DELETE if _is_adopted(made, state.made_owners) else Step.AWAIT_ADOPTION


def _finish(state: MoveState, made: Manifest) -> Step:
    """Return what is left to do for the new Tenant before its stack reconciles it."""
    if MOVING_TO not in _annotations(made):
        return Step.DONE
    return Step.HAND_OVER if state.left_owners else Step.RESUME


def _check_movable(left: Manifest, made: Manifest | None) -> None:
    if made is not None:
        raise MoveRefused(
            "it was moved before and is on both data planes; delete one of the two Tenants"
        )
    if left["metadata"].get("deletionTimestamp"):
        raise MoveRefused("the Tenant is being deleted")
    if _annotations(left).get(OWNER) or left["metadata"].get("ownerReferences"):
        raise MoveRefused(_of_registry(left))
    if is_paused(_annotations(left)):
        raise MoveRefused(f"the Tenant is paused; remove its annotation {PAUSED} first")


def _of_registry(left: Manifest) -> str:
    """Return what to do for a Tenant that a registry makes."""
    key = OwnerKey.parse(_annotations(left).get(OWNER, ""))
    registry = "a registry" if key is None else f"the registry {key.namespace}/{key.name}"
    return (
        f"the Tenant is made by {registry}, which would make it again from its row. Change the row, so that the "
        "query of a registry on the other data plane has it and this one has it no longer: its workload is deleted here, "
        "and then created again there. Nothing was changed"
    )


def _is_adopted(made: Manifest, owners: Sequence[str]) -> bool:
    """Whether the new Tenant was reconciled, and has all objects of the hub that record it."""
    status = made.get("status") or {}
    reconciled = status.get("observedGeneration") == made["metadata"]["generation"]
    return reconciled and not _has_condition(made, "Paused") and set(owners) <= {uid_of(made)}


def paused_source(left: Manifest, target: str) -> Manifest:
    """Return the patch that records the move, and stops work, on the Tenant as it was read."""
    annotations = {MOVING_TO: target, PAUSED: "true"}
    version = left["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": annotations}}


def copied(left: Manifest, source: str) -> Manifest:
    """Return the Tenant for the other data plane: labels, annotations and spec, paused as the one that is left is."""
    metadata = left["metadata"]
    annotations = {key: value for key, value in _annotations(left).items() if key != LAST_APPLIED}
    return {
        "apiVersion": left["apiVersion"],
        "kind": left["kind"],
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**annotations, MOVED_FROM: source},
        },
        "spec": copy.deepcopy(left["spec"]),
    }


def handed_over(found: Manifest, owner: Owner) -> Manifest:
    """Return the patch by which an object of the hub, as it was read, changes its Tenant and data plane.

    Without a recorded UID the new Tenant, whose key it has, adopts it; nothing of its spec changes.
    """
    metadata = found["metadata"]
    return {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "labels": {DATA_PLANE: owner.cluster},
            "annotations": {OWNER: owner.key, OWNER_UID: None},
        }
    }


def uid_of(manifest: Manifest) -> str:
    """Return the UID of an object."""
    return str(manifest["metadata"]["uid"])


def _annotations(manifest: Manifest) -> Mapping[str, str]:
    found: Mapping[str, Any] = manifest["metadata"].get("annotations") or {}
    return found


def _has_condition(manifest: Manifest, kind: str) -> bool:
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
