"""The models of pages about the process: its queues, its cache, its clusters."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from typing import Any

from ctrlruntime.cache.entry import Entry
from ctrlruntime.manager import Manager
from ctrlruntime.sharding.slots import format_slots
from manager.console.history import Line


def queues(manager: Manager) -> dict[str, Any]:
    """Return the work queues, those with the longest running item first, and the cache by kind."""
    states = sorted(manager.metrics.queue_states(), key=lambda each: (-each.longest, each.name))
    informers = sorted(manager.cache.stats(), key=lambda each: str(each.gvk))
    return {"queues": states, "informers": informers, "leading": manager.elected.is_set()}


def most(line: Line) -> float:
    """Return the largest value of a line."""
    return max((value for value in line.values if not isnan(value)), default=0.0)


def shards(manager: Manager) -> dict[str, Any]:
    """Return the members that share objects with their slots, and slots without an owner; nothing of a manager alone."""
    if manager.shards is None:
        return {"shared": False}
    owned = manager.shards.owned
    return {
        "shared": True,
        "whole": owned.is_whole,
        "message": owned.message,
        "oldest": owned.oldest,
        "epoch": owned.epoch,
        "members": [
            {"name": name, "slots": format_slots(slots), "count": len(slots)}
            for name, slots in sorted(owned.held.items())
        ],
        "unowned": [
            {"slots": format_slots(each.slots), "owner": each.owner, "seconds": each.seconds}
            for each in sorted(owned.unowned, key=lambda each: -each.seconds)
        ],
        "kept": [
            {"slots": format_slots(each.slots), "member": each.member, "seconds": each.seconds}
            for each in owned.kept
        ],
    }


def clusters(manager: Manager) -> list[dict[str, Any]]:
    """Return the clusters that the process is connected to."""
    return [
        {
            "name": each.name or "own cluster",
            "synced": each.cache.synced,
            "objects": sum(stats.objects for stats in each.cache.stats()),
            "waiting": ", ".join(str(kind) for kind in each.cache.unsynced()),
        }
        for each in (manager.cluster, *manager.engaged_clusters())
    ]


def planes(configs: Iterable[Entry]) -> list[dict[str, str]]:
    """Return the data planes of FleetConfigs, those with trouble first."""
    found = [
        {
            key: str(item.get(key, ""))
            for key in ("name", "result", "reason", "message", "lastTransitionTime")
        }
        for entry in configs
        for item in (entry.field("status") or {}).get("targetNamespaces") or []
    ]
    return sorted(found, key=lambda each: (each["result"] == "Success", each["name"]))
