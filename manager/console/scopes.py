"""What each page shows, and so what rights it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiohttp import web

from manager.console.access import CLAIMS, EVENTS, PODS, Scope
from manager.console.paths import CLUSTER, RUNS
from manager.console.state import ConsoleState

ScopeOf = Callable[[ConsoleState, web.Request], Scope]
RELATED: Final = {
    "TenantRegistry": ("TenantTemplate", "Tenant"),
    "TenantTemplate": ("TenantRegistry", "Tenant"),
    "Tenant": ("TenantRegistry", "TenantTemplate"),
    "FleetRollout": ("Instance",),
    "Instance": ("FleetRollout", *RUNS),
    **dict.fromkeys(RUNS, ("Instance",)),
    "CosmosFullNode": ("ScheduledVolumeSnapshot",),
    "ScheduledVolumeSnapshot": ("CosmosFullNode",),
}
"""Kinds that are shown on the page of an object: of its parents, and of what it is made of."""
PARTS: Final = {"CosmosFullNode": (EVENTS, PODS, CLAIMS)}
"""Parts of the pages of a kind that take a right of their own; those of all others: EVENTS."""


def namespace_of(request: web.Request) -> str:
    """Return the namespace that a page is of; empty for all, and for objects that have none."""
    found = request.match_info.get("namespace") or request.query.get("namespace", "").strip()
    return "" if found == CLUSTER else found


def of_kinds(*kinds: str, parts: tuple[str, ...] = ()) -> ScopeOf:
    """Return the scope of objects of these kinds; without any, of all."""

    def scope(state: ConsoleState, request: web.Request) -> Scope:
        found = state.indexes if not kinds else state.of_kinds(kinds)
        return Scope(kinds=tuple(found), namespace=namespace_of(request), parts=parts)

    return scope


def of_plural(state: ConsoleState, request: web.Request) -> Scope:
    """Return the scope of the objects of the kind in the path. Raises HTTPNotFound."""
    index = state.of_plural(request.match_info["plural"])
    if index is None:
        raise web.HTTPNotFound
    return Scope(kinds=(index,), namespace=namespace_of(request))


def of_object(*kinds: str, parts: tuple[str, ...] = (), alone: bool = False) -> ScopeOf:
    """Return the scope of the object in the path, with what is related to it unless it is `alone`.

    `kinds`: one of these; where the path has no plural, the only one. It raises HTTPNotFound.
    """

    def scope(state: ConsoleState, request: web.Request) -> Scope:
        plural = request.match_info.get("plural")
        found = state.of_plural(plural) if plural else next(iter(state.of_kinds(kinds)), None)
        if found is None or (kinds and found.kind not in kinds):
            raise web.HTTPNotFound
        related = () if alone else state.of_kinds(RELATED.get(found.kind, ()))
        return Scope(
            kinds=(found,),
            related=tuple(related),
            namespace=namespace_of(request),
            name=request.match_info["name"],
            parts=() if alone else (*PARTS.get(found.kind, (EVENTS,)), *parts),
        )

    return scope


def of_process(_state: ConsoleState, _request: web.Request) -> Scope:
    """Return the scope of what is of the process itself."""
    return Scope(process=True)


def of_planes(state: ConsoleState, _request: web.Request) -> Scope:
    """Return the scope of the data planes."""
    return Scope(kinds=tuple(state.of_kinds(("FleetConfig",))), process=True)
