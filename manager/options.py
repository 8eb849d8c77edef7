"""Options of `manager run`, each with its default and its reason."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ctrlruntime.manager import GCOptions, ManagerOptions
from manager.controllers.tenancy import TenancyOptions

LEADER_ELECTION_ID = "manager.ctrlruntime.dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `manager run` was told."""

    kubeconfig: Path | None = None
    context: str | None = None
    embedded: bool = False
    """Start an embedded API server with simulated nodes, and use that."""
    namespaces: tuple[str, ...] = ()
    """Namespaces to watch; none means all."""
    leader_elect: bool = False
    leader_election_id: str = LEADER_ELECTION_ID
    leader_election_namespace: str = ""
    metrics_bind_address: str = ":8080"
    health_probe_bind_address: str = ":8081"
    log_format: Literal["json", "console"] = "json"
    log_level: str = "info"
    tenancy: TenancyOptions = field(default_factory=TenancyOptions)

    def manager_options(self) -> ManagerOptions:
        """The runtime's part of the options."""
        return ManagerOptions(
            name="manager",
            namespaces=self.namespaces or None,
            leader_election=self.leader_elect,
            leader_election_id=self.leader_election_id,
            leader_election_namespace=self.leader_election_namespace,
            metrics_bind_address=self.metrics_bind_address,
            health_bind_address=self.health_probe_bind_address,
            gc=GCOptions(manage=True),
            handle_signals=True,
        )
