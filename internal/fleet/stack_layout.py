"""Which workloads of a stack have its controllers: Pods of fleet-controllers of which one works, or members that share the work. Pure.

From one to the other, what works goes only once what takes over is there and waits for the Lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

from ctrlruntime.cache.entry import Entry

SHARDS: Final = "--shards"
"""The argument that makes a Pod of fleet-workers a member."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a stack is to have now."""

    shards: int = 0
    """Members, the Pods of fleet-workers; 0: these sweep the hub alone."""
    controllers: bool = True
    """Whether fleet-controllers has Pods."""


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of a workload as it is on the server."""

    replicas: int
    ready: bool
    """Whether all are there, and of the present template."""
    share: bool
    """Whether they are members."""

    @classmethod
    def of(cls, workload: Entry | None) -> Self | None:
        """Return those of a workload; None without it."""
        if workload is None:
            return None
        spec: dict[str, Any] = workload.field("spec") or {}
        status: dict[str, Any] = workload.field("status") or {}
        replicas = int(spec.get("replicas", 1))
        there = min(int(status.get(each) or 0) for each in ("updatedReplicas", "availableReplicas"))
        seen = int(status.get("observedGeneration") or 0) >= workload.generation
        pod = (spec.get("template") or {}).get("spec") or {}
        share = any(SHARDS in (each.get("args") or ()) for each in pod.get("containers") or ())
        return cls(replicas, seen and there >= replicas > 0, share)


def plan_layout(shards: int | None, workers: Pods | None, controllers: Pods | None) -> Layout:
    """Return what to deploy for so many members, given what there is; None leaves it as it is."""
    works = controllers is not None and controllers.replicas > 0
    members = workers if workers is not None and workers.share else None
    if shards is None:
        return Layout(members.replicas, works) if members is not None else Layout()
    if shards:
        return Layout(shards, works and not (members is not None and members.ready))
    if members is not None and not (controllers is not None and controllers.ready):
        return Layout(members.replicas)  # they work until fleet-controllers waits for the Lease
    return Layout()
