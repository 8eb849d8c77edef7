"""Every series that processes of the manager serve, for the reference of metrics and the checks of alerts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.sharding.metrics import SlotMetrics
from ctrlruntime.webhook.metrics import WebhookMetrics
from internal.cloud.instance.metrics import InstanceMetrics
from internal.cloud.rollouts.metrics import RolloutMetrics
from internal.cloud.taskdriver.deps import TaskMetrics
from internal.cosmos.cache.metrics import CacheMetrics
from internal.cosmos.fullnode.metrics import NodeSetMetrics
from internal.cosmos.selfheal.metrics import SelfHealMetrics
from internal.cosmos.snapshots.metrics import SnapshotMetrics
from internal.fleet.metrics import FleetMetrics
from internal.operations.metrics import FreezeMetrics
from internal.tenancy.shared.metrics import TenancyMetrics
from manager.controllers.orphan_sweep import SweepMetrics
from manager.controllers.task_settings import valid_gauge
from manager.controllers.terraform_types import types_gauge

PARTS: Final = {
    "Runtime": (WebhookMetrics, FreezeMetrics, SlotMetrics),
    "Tenancy": (TenancyMetrics,),
    "Cloud": (TaskMetrics, RolloutMetrics, InstanceMetrics, valid_gauge, types_gauge),
    "Cosmos": (NodeSetMetrics, CacheMetrics, SelfHealMetrics, SnapshotMetrics),
    "Scale mode": (FleetMetrics, SweepMetrics),
}
"""What registers series, by system. Each part takes a registry."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric as it is served."""

    system: str
    name: str
    kind: str
    text: str


def registries() -> dict[str, CollectorRegistry]:
    """Return a registry with all series of each system, by its name."""
    found = {"Runtime": Metrics().registry}
    for system, parts in PARTS.items():
        registry = found.setdefault(system, CollectorRegistry())
        for part in parts:
            part(registry)
    return found


def families() -> Iterator[Family]:
    """Yield every metric, by system in the order of `PARTS`, then by name."""
    for system, registry in registries().items():
        for metric in sorted(registry.collect(), key=lambda found: found.name):
            yield Family(system, metric.name, metric.type, metric.documentation)
