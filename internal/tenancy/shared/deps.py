"""What the reconcilers of registries, templates and tenants share: objects to read, ways to write."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from ctrlruntime.cache import Entry, Store
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.lifecycle.status import StatusWriter
from ctrlruntime.queue import Request
from ctrlruntime.resources import Action, Control, Desired, Owner
from internal.approvals.counted import ApprovalView
from internal.tenancy.shared.approvals import REGISTRY, RULES
from internal.tenancy.shared.missing_permissions import Grants
from internal.tenancy.shared.pools import WorkerPools
from internal.tenancy.shared.rollout import Rollouts
from internal.tenancy.shared.tally import Tally


@dataclass(frozen=True, slots=True)
class TenancyStores:
    """The objects of tenancy's kinds, as the cache has them."""

    registries: Store
    templates: Store
    tenants: Store
    approvals: ApprovalView = field(default_factory=lambda: ApprovalView(REGISTRY, RULES))
    """Which approvals of registries count."""

    def registry(self, request: Request) -> Entry | None:
        """Return a registry as far as it counts; None if there is none."""
        entry = self.registries.get(request.name, namespace=request.namespace)
        return None if entry is None else self.approvals.counted(entry)


@dataclass(frozen=True, slots=True)
class TenancyRecords:
    """What controllers record in memory for each other."""

    tally: Tally
    """Counts of tenants."""
    rollouts: Rollouts
    """What the last plan of each registry found."""
    grants: Grants
    """Rights that tenants miss."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time of day, and seconds that only grow."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Writers:
    """How objects are written, and how many at once."""

    control: Control
    patcher: ObjectPatcher
    statuses: StatusWriter
    pools: WorkerPools

    async def ensure(self, desired: Desired, owner: Owner, over: str = "") -> str:
        """Write one object. Return what prevents it, or an empty text.

        A whole object of another owner is left alone. `over`: as of Control.ensure.
        """
        outcome = await self.control.ensure(desired, owner, over=over)
        return outcome.conflict if outcome.action is Action.CONFLICT else ""
