"""The condition of objects that no manager works on, where several share them, wired to the runtime."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.store import Store
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.predicates import more_than_own_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.manager import Manager
from ctrlruntime.sharding.report import SlotsOwned
from ctrlruntime.sharding.slot_owners import SlotOwners
from manager.controllers.error_status import UnprotectedOnly


def add_slot_owners(
    manager: Manager,
    kind: type[Resource[Any, Any]],
    objects: Store,
    patcher: ObjectPatcher,
    *,
    clock: Callable[[], datetime],
    noun: str,
    effect: str,
) -> None:
    """Have the leader report objects that no manager works on. A manager that works alone corrects what was reported.

    `noun`: what people call an object of the kind. `effect`: a sentence, what does not happen to it meanwhile.
    """
    shards, wakeups = manager.shards, RequestSource("slots without an owner")
    owners = SlotOwners(
        objects=objects,
        owned=lambda: SlotsOwned() if shards is None else shards.owned,
        patcher=patcher,
        mapping=kind.mapping(),
        clock=clock,
        wake=partial(wakeups.enqueue, reason="its slot lost its owner, or has one again"),
        noun=noun,
        effect=effect,
    )
    if shards is not None:
        manager.add(owners)
    (
        Builder(manager)
        .named(f"{kind.gvk().kind.lower()}-slots")
        .for_(kind, predicates=[more_than_own_status_changed])
        .explicit_permissions()  # those of the controller of the kind
        .watches_raw(wakeups)
        .build(UnprotectedOnly(owners, manager.options.protected))
    )
