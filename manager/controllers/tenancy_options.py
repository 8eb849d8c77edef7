"""Options of the tenancy system. Imports nothing of it: the command line reads the defaults of every system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.clock import utc_now
from manager.controllers.health_check_options import HealthCheckOptions
from manager.flags.groups import POSITIVE, flag

if TYPE_CHECKING:
    from internal.tenancy.shared.privileges import Privileges
    from internal.tenancy.tenant.slots import TenantSlots

_NOT_NEGATIVE: Final = click.FloatRange(min=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenancyOptions:
    """Options of the tenancy system."""

    registry_concurrency: int = field(
        default=3,
        metadata=flag("--registry-concurrency", "Registries worked on at once.", type=POSITIVE),
    )
    template_concurrency: int = field(
        default=5,
        metadata=flag("--template-concurrency", "Templates worked on at once.", type=POSITIVE),
    )
    tenant_concurrency: int = field(
        default=10,
        metadata=flag("--tenant-concurrency", "Tenants worked on at once.", type=POSITIVE),
    )
    writes_per_type: int = field(
        default=16,
        metadata=flag("--writes-per-type", "Writes of one resource type at once.", type=POSITIVE),
    )
    writes_total: int = field(
        default=64, metadata=flag("--writes-total", "Writes at once, of all types.", type=POSITIVE)
    )
    sqlite_root: Path | None = field(
        default=None,
        metadata=flag(
            "--allow-sqlite",
            "Allow SQLite sources, of files in this directory.",
            type=click.Path(path_type=Path, file_okay=False, exists=True),
        ),
    )
    tenant_series: int = field(
        default=500,
        metadata=flag(
            "--tenant-series",
            "Most tenants with metrics of their own (if not ready).",
            type=click.IntRange(min=0),
        ),
    )
    every_tenant_series: bool = field(
        default=False,
        metadata=flag("--every-tenant-series", "Metrics of its own for every tenant."),
    )
    status_period: float = field(
        default=1.0,
        metadata=flag(
            "--status-period",
            "Seconds that changed counts of tenants wait for more, and between two writes of one status.",
            type=_NOT_NEGATIVE,
        ),
    )
    template_grace: float = field(
        default=300.0,
        metadata=flag(
            "--template-grace",
            "Seconds that tenants stay after a template without deletion protection.",
            type=_NOT_NEGATIVE,
        ),
    )
    allow_foreign_namespaces: frozenset[str] = frozenset()
    """Namespaces besides the tenant's that templates may write to and make: names, patterns, `own`."""
    instead_of_foreign: str = ""
    """What to do instead, with `{name}`, where no option allows foreign namespaces."""
    allow_kinds: frozenset[GroupKind] = frozenset()
    """Kinds that templates may name although the ClusterRole `edit` does not grant them."""
    health_checks: HealthCheckOptions = field(default_factory=HealthCheckOptions)
    """Where health checks of templates' rollouts may send requests."""
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
