"""Options that every command with a manager has: its cluster, its election, its metrics and its health."""

from dataclasses import dataclass
from pathlib import Path

from ctrlruntime.client.protected_namespaces import KUBERNETES_NAMESPACES, ProtectedNamespaces
from ctrlruntime.manager import GCOptions, ManagerOptions, MetricsServing


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRun:
    """What such a command was given."""

    kubeconfig: Path | None = None
    context: str | None = None
    leader_elect: bool = False
    leader_election_id: str = ""
    leader_election_shared_id: str = ""
    """Lease that managers of single systems hold together, against one of all systems; empty: none."""
    leader_election_namespace: str = ""
    metrics_bind_address: str = ":8080"
    metrics_secure: bool = False
    """Serve metrics over https, and only to whom the API server allows."""
    metrics_cert_path: Path | None = None
    """Folder of the metrics' certificate; without one it is self-signed."""
    metrics_cert_name: str = "tls.crt"
    metrics_cert_key: str = "tls.key"
    health_probe_bind_address: str = ":8081"

    allow_protected_namespaces: frozenset[str] = frozenset()
    """Names of protected namespaces in which objects of the systems are reconciled all the same."""

    def protected_patterns(self) -> frozenset[str]:
        """Return names and patterns of the namespaces in which nothing is written for objects that people write."""
        return KUBERNETES_NAMESPACES

    def served_options(self, name: str) -> ManagerOptions:
        """Return the runtime's part of these options, for a manager of that name."""
        return ManagerOptions(
            name=name,
            leader_election=self.leader_elect,
            leader_election_id=self.leader_election_id,
            leader_election_shared_id=self.leader_election_shared_id,
            leader_election_namespace=self.leader_election_namespace,
            metrics_bind_address=self.metrics_bind_address,
            metrics=MetricsServing(
                secure=self.metrics_secure,
                authorize=self.metrics_secure,
                certificate_folder=self.metrics_cert_path,
                certificate_name=self.metrics_cert_name,
                key_name=self.metrics_cert_key,
            ),
            health_bind_address=self.health_probe_bind_address,
            gc=GCOptions(manage=True),
            protected=ProtectedNamespaces(
                patterns=self.protected_patterns(),
                allowed=self.allow_protected_namespaces,
                remedy="start the manager with --allow-protected-namespace {namespace}",
            ),
            handle_signals=True,
        )
