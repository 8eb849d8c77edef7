"""What a builder was given to watch, until it makes sources of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.api.resource import KindRef
from ctrlruntime.cluster.selection import ClusterRef, ClusterSet
from ctrlruntime.controller import permissions
from ctrlruntime.controller.event_dispatch import Handler
from ctrlruntime.controller.handlers import planned_mapping
from ctrlruntime.controller.predicates import Predicate


class BuilderError(ValueError):
    """The parts given do not make a controller."""


@dataclass(slots=True)
class DeclaredWatch:
    """A kind, and what its events lead to."""

    kind: KindRef
    handler: Handler[Any, Any]
    predicates: tuple[Predicate, ...]
    options: dict[str, Any] = field(default_factory=dict)
    cluster: ClusterRef = ClusterSet.LOCAL


@dataclass(slots=True)
class DeclaredOwned:
    """A kind whose events lead to the owner of the primary kind."""

    kind: KindRef
    controller_only: bool
    predicates: tuple[Predicate, ...]
    options: dict[str, Any]
    cluster: ClusterRef | None
    needed: list[permissions.Permission]


def check_tracked(method: str, kind: KindRef, tracked: str | None, known: Collection[str]) -> None:
    """Raise BuilderError if no Control writes as the field manager ``tracked``; "" is none."""
    if tracked == "" or tracked in known:
        return
    wrong = "has no track_manager" if tracked is None else f"tracks {tracked!r}"
    fixes = " or ".join(f"track_manager={each!r}" for each in sorted(known))
    raise BuilderError(
        f"{method}({planned_mapping(kind).gvk}) {wrong}, so that a Control would write its objects "
        f"in every reconcile: pass {fixes}, the field_manager of the Control; or "
        'track_manager="" for a kind that no Control writes'
    )
