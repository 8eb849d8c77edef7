"""How a Tenant that a registry made is moved: its row changes data planes, its workload stays. Pure.

The row is what decides where the Tenant is. The move is recorded first, so that the registry that loses the row keeps the
Tenant; the registry that gets the row makes the Tenant there, whose objects are in conflict until they are handed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apis.fleet.labels import MOVED_FROM, MOVING_TO, ROW, ROW_GONE
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.controller.annotations import is_paused
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

_GIVE_UP: Final = "or give the move up with --abort"


def next_step_of_row(state: MoveState, left: Manifest) -> Step:
    """Return what is to be done next for a Tenant whose move is recorded. Raises MoveRefused, with what to do."""
    made, annotations = state.made, annotations_of(left)
    marked = made is not None and is_marked(state, made)
    if not marked and annotations.get(ROW) != ROW_GONE:
        return Step.AWAIT_LEAVING if ROW in annotations else Step.AWAIT_HOLD
    if made is None or is_deleting(made):
        return Step.AWAIT_ROW
    if not marked:
        _check_same(state, left, made)
    if not is_paused(annotations):
        return Step.PAUSE
    if not has_condition(left, "Paused"):
        return Step.AWAIT_PAUSE
    if not marked:
        return Step.MARK
    if state.left_owners:
        return Step.HAND_OVER
    return Step.DELETE if is_adopted(made, state.made_owners) else Step.AWAIT_ADOPTION


def check_other_registry(state: MoveState, left: Manifest) -> None:
    """Raise MoveRefused if the other data plane would not make the same Tenant from the row."""
    spec, other = left["spec"], state.other
    template, registry = str(spec.get("templateRef", "")), str(spec.get("registryId", ""))
    if not other.revision:
        raise MoveRefused(
            f"the other data plane has no TenantTemplate {template} that can be read; apply it there, with its registry"
        )
    if not other.found:
        raise MoveRefused(
            f"the other data plane has no TenantRegistry {other.registry}, which its template {template} names; create "
            "it there, with a view that has no row of this Tenant yet"
        )
    if other.registry != registry:
        raise MoveRefused(
            f"the registry of the other data plane is {other.registry}, here it is {registry}, and templates may read "
            f"that; name the other one {registry} too"
        )
    if other.paused:
        raise MoveRefused(
            f"the registry {registry} or its template {template} is paused on the other data plane; resume it"
        )
    if other.revision != spec.get("templateRevision"):
        raise MoveRefused(
            f"the template {template} of the other data plane differs from what the Tenant was made from, so that its "
            "Pods would roll; apply the same template on both, and let its rollout complete"
        )


def _check_same(state: MoveState, left: Manifest, made: Manifest) -> None:
    """Raise MoveRefused if the new Tenant is of something else, or would roll the workload."""
    if not is_of_registry(made):
        raise MoveRefused(
            "the other data plane has a Tenant of this name that no registry made; rename or delete one of the two"
        )
    changed = _differences(left["spec"], made["spec"])
    if not state.same_values:
        changed.append("the sensitive values")
    if changed:
        raise MoveRefused(
            f"the registry of the other data plane made a Tenant that differs in {', '.join(changed)}, so that its Pods would "
            f"roll; make row, mappings and template equal, {_GIVE_UP}"
        )


def _differences(left: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for field in sorted({*left, *made}):
        one, other = left.get(field), made.get(field)
        if one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            names = {name for name in {*one, *other} if one.get(name) != other.get(name)}
            found += [f"{field}.{name}" for name in sorted(names)]
        else:
            found.append(field)
    return found


def check_abort(left: Manifest) -> None:
    """Raise MoveRefused if the registry would delete the Tenant once its move is given up."""
    if annotations_of(left).get(ROW) == ROW_GONE:
        raise MoveRefused(
            "its registry has its row no longer, and would delete it with its workload; put the row back into its view "
            "first, and take it out of that of the other data plane"
        )


def is_marked(state: MoveState, made: Manifest) -> bool:
    """Whether the new Tenant records that it takes the objects of the former one."""
    return annotations_of(made).get(MOVED_FROM) == state.source


def recorded(left: Manifest, target: str) -> Manifest:
    """Return the patch that records the move on the Tenant as it was read."""
    version = left["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": {MOVING_TO: target}}}


def marked(made: Manifest, source: str | None) -> Manifest:
    """Return the patch that records on the new Tenant, as it was read, where it came from; None removes that."""
    metadata = made["metadata"]
    seen = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {"metadata": {**seen, "annotations": {MOVED_FROM: source}}}
