"""What the figures of `make bench-scale` may be at most. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ScaleFigures:
    """The last line. Counts are of all stacks together, without Leases."""

    planes: int = 0
    objects: int = 0
    """Tenants of one ConfigMap each, of which 1 % have a Deployment too."""
    seconds: float = 0.0
    """From the first Tenant that is created until all are ready, the pause at half left out."""
    cpu_seconds: float = 0.0
    """Processor time of all stacks from their start to the first convergence."""
    gib: float = 0.0
    """Resident memory of all stacks with all objects."""
    writes: int = 0
    steady_seconds: float = 0.0
    steady_requests: int = 0
    """Without watches."""
    workload_requests_on_planes: int = 0
    bytes_per_object: int = 0
    """Resident memory of the controllers for each cached object, as the slope from half of the Tenants to all."""
    restart_writes: int = 0
    """Without events."""
    restart_events: int = 0
    """One for each process: it names the replica that was elected."""
    restart_cpu_ratio: float = 0.0
    """Processor time from a restart until idle, to that of the first convergence."""
    hub_cache_share: float = 0.0
    """Largest share of the hub's objects that one stack has in its cache."""
    lost: int = 0
    """Tenants that are not ready, and objects that are missing, at the end."""
    dead_cluster_p99_ratio: float = 0.0
    dead_cluster_lost: int = 0


def exceeded(figures: ScaleFigures) -> list[str]:
    """Return a sentence for each figure that exceeds its bound."""
    bounds: dict[str, float] = {
        "writes": 3.2 * figures.objects + 200 * figures.planes,
        "steady_requests": 0,
        "workload_requests_on_planes": 0,
        "bytes_per_object": 6144,
        "restart_writes": 0,
        "restart_events": 2 * figures.planes,
        "restart_cpu_ratio": 0.4,
        "hub_cache_share": 1.2 / figures.planes,
        "dead_cluster_p99_ratio": 2,
        "dead_cluster_lost": 0,
        "lost": 0,
    }
    return [
        f"{name} is {getattr(figures, name)}, and may be {bound:g} at most"
        for name, bound in bounds.items()
        if getattr(figures, name) > bound
    ]
