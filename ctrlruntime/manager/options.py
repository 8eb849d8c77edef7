"""Options of a manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlruntime.client.options import ClientOptions
from ctrlruntime.client.protected_namespaces import ProtectedNamespaces
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.events.correlator import EventOptions
from ctrlruntime.manager.election import ElectionOptions
from ctrlruntime.manager.serving import MetricsServing
from ctrlruntime.manager.watchdog import GCOptions
from ctrlruntime.sharding.options import ShardingOptions
from ctrlruntime.webhook.options import WebhookOptions

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """Options of a manager. Times in seconds. Addresses are "host:port" or ":port"; "0" is off."""

    name: str = "ctrlruntime"
    """Names the program in events (``reportingController``), field managers and user agents."""
    namespaces: tuple[str, ...] | None = None
    """Namespaces the cache watches by default; None is all."""

    protected: ProtectedNamespaces = field(default_factory=ProtectedNamespaces)
    """Namespaces in which no Control writes, in any cluster of the manager: by default those of Kubernetes itself."""

    client: ClientOptions = field(default_factory=ClientOptions)
    """Of the clients of controllers, cache, events and webhooks, which share the limit of ``qps``; the election's has none."""

    leader_election: bool = False
    leader_election_id: str = ""
    """Name of the Lease; required with leader election."""
    leader_election_shared_id: str = ""
    """Name of a Lease that leaders of different Leases hold together, so that a manager that competes for that one
    leads beside none of them. By default there is none."""
    leader_election_shared_identity: str = ""
    """Identity in Leases that are held together, by members of slots too: whoever has another one is kept out. By default
    leaders have the same, and members that of their group."""
    leader_election_namespace: str = ""
    """Namespace of the Lease; by default the Pod's own, and an error outside of a cluster."""
    leader_election_resource_lock: str = "leases"
    """Only leases; the older kinds of lock are refused."""
    leader_election_labels: Mapping[str, str] = field(default_factory=dict)
    leader_election_identity: str = ""
    """By default ``<hostname>_<uuid>``."""
    leader_election_events: bool = True
    """Whether taking and giving up the lead is recorded as an event on the Lease."""
    election: ElectionOptions = field(default_factory=ElectionOptions)

    sharding: ShardingOptions | None = None
    """Divides the objects of sharded controllers among the processes of a group; see ``Builder.sharded``. Needs leader
    election, but with fixed slots. By default each process works on everything."""

    metrics_bind_address: str = ":8080"
    metrics: MetricsServing = field(default_factory=MetricsServing)
    """Plain to everybody by default; over https, and to whom the API server allows, if asked."""
    health_bind_address: str = ":8081"
    liveness_path: str = "/healthz"
    readiness_path: str = "/readyz"
    diagnostics_bind_address: str = "0"
    """Serves ``/debug/tasks`` and ``/debug/stacks``: what the process is doing. For people, on
    loopback."""

    webhook: WebhookOptions = field(default_factory=WebhookOptions)
    """Where and with which certificates webhooks are served, if any are registered."""

    graceful_shutdown_timeout: float = 10.0
    """Seconds that reconciles in progress get at the end before they are cancelled, and then again as
    many for all runnables to end; 0 cancels at once and does not wait, negative waits for ever."""
    controller: ControllerOptions = field(default_factory=ControllerOptions)
    """Defaults for all controllers."""
    events: EventOptions = field(default_factory=EventOptions)
    gc: GCOptions = field(default_factory=GCOptions)
    tracer_provider: TracerProvider | None = None
    """By default the process's global one, if any was set."""
    handle_signals: bool = False
    """Whether SIGTERM and SIGINT stop it, so that :meth:`Manager.start` returns. ``run()`` needs no
    such option: it cancels the main coroutine, which stops the manager in the same order."""

    @property
    def fenced(self) -> bool:
        """Whether writes are checked when they are sent: others may be at work."""
        return self.leader_election or self.sharding is not None


def lease_namespace(options: ManagerOptions) -> str:
    """Return the namespace of the Lease. Raises ValueError outside of a cluster if none is given."""
    if options.leader_election_namespace:
        return options.leader_election_namespace
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text().strip()
    except OSError:
        raise ValueError(
            "leader election outside of a cluster needs leader_election_namespace"
        ) from None


def check_election(options: ManagerOptions) -> None:
    """Raise ValueError for leader election that is not fully described."""
    sharding = options.sharding
    if sharding is not None and sharding.slots is None and not options.leader_election:
        raise ValueError(
            "sharding needs leader_election: the leader assigns the slots. Or give fixed slots: "
            "ShardingOptions(group=..., slots=parse_slots('0-31'))"
        )
    if not options.leader_election:
        return
    if not options.leader_election_id:
        raise ValueError("leader election needs leader_election_id, the name of the Lease")
    if options.leader_election_id == options.leader_election_shared_id:
        raise ValueError(
            "leader_election_shared_id is the name of another Lease than leader_election_id"
        )
    lock = options.leader_election_resource_lock
    if lock != "leases":
        raise ValueError(
            f"leader election by {lock!r} is not supported: use leases (the locks configmaps, "
            "endpoints, configmapsleases and endpointsleases are gone from Kubernetes)"
        )
    lease_namespace(options)
