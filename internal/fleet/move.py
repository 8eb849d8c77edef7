"""How a Tenant is moved from one data plane to another: which step is next, from what there is. Pure.

Each step is one observation of both data planes and the hub, and at most one kind of write: a move that was interrupted
goes on where it was. What is recorded is on the Tenants: `fleet.ctrlruntime.dev/moving-to` on both until the new
one has the objects of the hub, `fleet.ctrlruntime.dev/moved-from` on the new one.
"""

from __future__ import annotations

import copy

from apis.fleet.labels import DATA_PLANE, MOVED_FROM, MOVING_TO, ROW
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.controller.annotations import PAUSED, is_paused
from ctrlruntime.resources import OWNER, OWNER_UID, Owner
from internal.fleet.move_state import (
    MoveRefused,
    MoveState,
    Step,
    annotations_of,
    has_condition,
    is_adopted,
    is_deleting,
    is_of_registry,
)
from internal.fleet.registry_move import (
    check_abort,
    check_other_registry,
    is_marked,
    next_step_of_row,
)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def next_step(state: MoveState) -> Step:
    """Return what is to be done next. Raises MoveRefused, with what to do."""
    left, made = state.left, state.made
    of_rows = left is not None and is_of_registry(left)
    if made is not None and not is_marked(state, made) and not of_rows:
        raise MoveRefused(
            "the other data plane has a Tenant of this name that was not moved from here; rename or delete one of the two"
        )
    if left is None:
        if made is None:
            raise MoveRefused("neither data plane has such a Tenant; check name and namespace")
        return _finish(state, made)
    annotations = annotations_of(left)
    if MOVING_TO not in annotations:
        _check_movable(state, left)
        return Step.RECORD if of_rows else Step.PAUSE
    _check_target(state, left)
    if is_deleting(left):
        return _end(state, left)
    if of_rows:
        return next_step_of_row(state, left)
    if not has_condition(left, "Paused"):
        return Step.AWAIT_PAUSE
    if made is None:
        return Step.COPY
    step = _finish(state, made)
    if step is not Step.DONE:
        return step
    return Step.DELETE if is_adopted(made, state.made_owners) else Step.AWAIT_ADOPTION


def next_step_back(state: MoveState) -> Step:
    """Return what is next to give a move up. Raises MoveRefused once objects of the hub were handed over."""
    left, made = state.left, state.made
    if left is None:
        raise MoveRefused("it is not on the data plane any more; to have it back, move it back")
    if MOVING_TO not in annotations_of(left):
        return Step.ABORTED
    _check_target(state, left)
    if is_deleting(left) or state.made_owners:
        raise MoveRefused(
            "objects of the hub were handed over already; run the command without --abort, and move it back then"
        )
    if is_of_registry(left):
        check_abort(left)
        unmark = made is not None and is_marked(state, made)
        return Step.UNMARK if unmark else Step.UNRECORD
    if made is not None and is_marked(state, made):
        return Step.DROP_COPY
    return Step.UNRECORD


def _finish(state: MoveState, made: Manifest) -> Step:
    """Return what is left to do for the new Tenant before its stack reconciles it."""
    if MOVING_TO not in annotations_of(made):
        return Step.DONE
    return Step.HAND_OVER if state.left_owners else Step.RESUME


def _end(state: MoveState, left: Manifest) -> Step:
    """Return what is next for a Tenant that is being deleted, perhaps by someone else and too early."""
    if not is_paused(annotations_of(left)):
        return Step.AWAIT_END
    follows = state.made is not None and is_marked(state, state.made)
    if follows and state.left_owners and has_condition(left, "Paused"):
        return Step.HAND_OVER
    return Step.RELEASE


def _check_target(state: MoveState, left: Manifest) -> None:
    recorded = annotations_of(left)[MOVING_TO]
    if recorded != state.target:
        raise MoveRefused(f"it is being moved to data plane {recorded}; let that move end first")


def _check_movable(state: MoveState, left: Manifest) -> None:
    if is_deleting(left):
        raise MoveRefused("the Tenant is being deleted")
    if is_paused(annotations_of(left)):
        raise MoveRefused(f"the Tenant is paused; remove its annotation {PAUSED} first")
    for field, why in _NOT_MOVABLE.items():
        if left["spec"].get(field):
            raise MoveRefused(f"its spec.{field} {why}")
    if is_of_registry(left):
        check_other_registry(state, left)
        return
    if annotations_of(left).get(OWNER) or left["metadata"].get("ownerReferences"):
        raise MoveRefused(
            "the Tenant has an owner that is no registry and would make it again; remove it there"
        )
    if state.made is not None:
        raise MoveRefused(
            "it was moved before and is on both data planes; delete one of the two Tenants"
        )


_NOT_MOVABLE = {
    "generate": "would be drawn anew on the other data plane; give the values to the row, or to a Secret of your own",
    "hooks": "would run again on the other data plane, and those of a deletion here; remove them from it, or from its template, first",
}


def paused_source(left: Manifest, target: str) -> Manifest:
    """Return the patch that records the move, and stops work, on the Tenant as it was read."""
    annotations = {MOVING_TO: target, PAUSED: "true"}
    version = left["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": annotations}}


def unrecorded(left: Manifest) -> Manifest:
    """Return the patch that gives the move of a Tenant, as it was read, up."""
    version = left["metadata"]["resourceVersion"]
    annotations = dict.fromkeys((MOVING_TO, PAUSED, ROW))
    return {"metadata": {"resourceVersion": version, "annotations": annotations}}


def copied(left: Manifest, source: str) -> Manifest:
    """Return the Tenant for the other data plane: labels, annotations and spec, paused as the one that is left is."""
    metadata = left["metadata"]
    annotations = {key: value for key, value in annotations_of(left).items() if key != LAST_APPLIED}
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
