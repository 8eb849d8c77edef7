"""Options of the tenancy system. Imports nothing of it: the command line reads the defaults of every system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.clock import utc_now
from manager.controllers.health_check_options import HealthCheckOptions

if TYPE_CHECKING:
    from internal.tenancy.shared.privileges import Privileges
    from internal.tenancy.tenant.slots import TenantSlots

STATUS_PERIOD = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenancyOptions:
    """Options of the tenancy system."""

    registry_concurrency: int = 3
    template_concurrency: int = 5
    tenant_concurrency: int = 10
    writes_per_type: int = 16
    """Writes of one resource type that are under way at once."""
    writes_total: int = 64
    """Writes that are under way at once."""
    sqlite_root: Path | None = None
    """Directory of the SQLite files that registries may name; None allows none."""
    tenant_series: int = 500
    """Most tenants with metric series of their own; only those that are not ready have any."""
    every_tenant_series: bool = False
    """Series for every tenant."""
    status_period: float = STATUS_PERIOD
    """Seconds that changed counts of tenants wait for more, and between two writes of one status."""
    allow_foreign_namespaces: frozenset[str] = frozenset()
    """Namespaces besides the tenant's that templates may write to and make: names, patterns, `own`."""
    instead_of_foreign: str = ""
    """What to do instead, with `{name}`, where no option allows foreign namespaces."""
    allow_kinds: frozenset[GroupKind] = frozenset()
    """Kinds that templates may name although the ClusterRole `edit` does not grant them."""
    health_checks: HealthCheckOptions = field(default_factory=HealthCheckOptions)
    """Where health checks of templates' rollouts may send requests."""
    template_grace: float = 300.0
    """Seconds that tenants stay after a template without deletion protection."""
    webhooks: bool = False
    """Validate registries and templates on admission."""
    protected_namespaces: frozenset[str] = frozenset()
    """Names or patterns of namespaces that nothing is written to for any tenant, nor to their
    Namespace objects; `kube-*` are always among them."""
    default_account: str = ""
    """Service account of its namespace by which a tenant is written that names none; empty: the manager."""
    slots: TenantSlots | None = None
    """The tenants that this process works on, where several share them; None: it works on all."""
    clock: Callable[[], datetime] = utc_now
    """The time by which objects age and windows end."""

    @property
    def privileges(self) -> Privileges:
        """What templates may do."""
        from internal.tenancy.shared.privileges import ForeignNamespaces, Privileges

        return Privileges(
            foreign=ForeignNamespaces.parse(self.allow_foreign_namespaces),
            kinds=self.allow_kinds,
            protected=self.protected_namespaces,
            default_account=self.default_account,
            instead=self.instead_of_foreign,
        )
