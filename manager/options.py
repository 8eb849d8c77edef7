"""Options of `manager run`, each with its default and its reason."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Literal

from ctrlruntime.client.protected_namespaces import KUBERNETES_NAMESPACES
from ctrlruntime.events import EventOptions
from ctrlruntime.manager import ManagerOptions, WebhookOptions
from ctrlruntime.sharding.members import LABEL_VERSION
from ctrlruntime.sharding.options import ShardingOptions
from manager.console.options import ConsoleOptions, cloud_run_place
from manager.controllers.cloud_options import CloudOptions
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.tenancy_options import TenancyOptions
from manager.serving.served_run import ServedRun

SYSTEMS = ("tenancy", "cloud", "cosmos")
"""Names of the systems, in the order in which they are added."""
LEADER_ELECTION_ID = "manager.ctrlruntime.dev"
SHARD_GROUP = "manager"
"""Names the managers that share tenants, and with them sets of nodes and Instances; the Leases of their slots begin with it."""
COSMOS_GROUP = "cosmos"
"""Names those that share sets of nodes without tenants."""
CLOUD_GROUP = "cloud"
"""Names those that share Instances alone."""


def system_lease(system: str) -> str:
    """Return the Lease of the managers of one system, where each system has Deployments of its own."""
    return f"{system}.{LEADER_ELECTION_ID}"


LEASES = (LEADER_ELECTION_ID, *map(system_lease, SYSTEMS))
"""Every Lease that shipped manifests name."""
SHARD_GROUPS = (SHARD_GROUP, COSMOS_GROUP, CLOUD_GROUP)
"""Groups of managers that share work: the values of the label of their Leases."""
EVENTS_WAITING = 20_000
"""Events that may wait to be sent: those of a thousand instances that are rolled out at once."""


def mutating_name(validating: str) -> str:
    """Return the name of the MutatingWebhookConfiguration beside a ValidatingWebhookConfiguration."""
    return validating.replace("validating", "mutating")


class Role(StrEnum):
    """The parts of a stack, each a workload of its own."""

    CONTROLLERS = "controllers"
    """Reconcile; elected."""
    ADMISSION = "admission"
    """Serve the webhooks."""
    WORKERS = "workers"
    """Sweep the hub for objects whose Tenant is gone from the data plane; elected by a Lease of its own. With `shards`
    reconcile a share of the Tenants, and sweep as the leader of the members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(ServedRun):
    """The options of `manager run`."""

    embedded: bool = False
    """Start an embedded API server with simulated nodes, and use that."""
    data_plane_kubeconfig: Path | None = None
    """Kubeconfig of a data plane: it is the manager's own cluster then, and workloads go to the other."""
    data_plane_id: str = ""
    """The id that the data plane was proved to have; empty: whatever it has at the start."""
    role: Role | None = None
    """What this process does of a stack; None: everything but the work of `workers`."""
    target_namespace: str = ""
    """The namespace of the hub that the stack is deployed to; by default the Pod's."""
    unrestricted_hub_secrets: bool = False
    """Watch Secrets of the hub in all namespaces, not in the stack's parallel namespaces and its own alone."""
    admission_url: str = ""
    """Where the data plane reaches the webhooks of the role `admission`; empty: they are not configured there."""
    own_namespace: str = ""
    """The namespace of the manager's own Pod; empty outside of a cluster."""
    systems: tuple[str, ...] = SYSTEMS
    """Systems whose controllers run; their kinds have to be installed."""
    namespaces: tuple[str, ...] = ()
    """Namespaces to watch; none means all."""
    leader_election_id: str = LEADER_ELECTION_ID
    slots: frozenset[int] | None = None
    """The slots whose objects this manager works on, beside managers of the others; None: no fixed ones."""
    shards: bool = False
    """Whether the elected leader gives slots to each of several managers as they come and go."""
    shard_name: str = ""
    """Names this manager among those that share; by default its host's name, or its fixed slots."""
    webhook_port: int = 9443
    webhook_cert_path: Path | None = None
    """Folder of the webhooks' certificate; without one the managers make and rotate their own."""
    webhook_cert_name: str = "tls.crt"
    webhook_cert_key: str = "tls.key"
    webhook_client_ca: Path | None = None
    """PEM file: only clients whose certificate it signed are let in."""
    webhook_secret_name: str = "webhook-server-cert"  # noqa: S105 - a name
    webhook_secret_namespace: str = ""
    webhook_service_name: str = "webhook-service"
    webhook_configuration: str = "validating-webhook-configuration"
    """The ValidatingWebhookConfiguration that gets the CA of certificates made here, and so does the mutating one."""
    log_format: Literal["json", "console"] = "json"
    log_level: str = "info"
    tenancy: TenancyOptions = field(default_factory=TenancyOptions)
    cloud: CloudOptions = field(default_factory=CloudOptions)
    cosmos: CosmosOptions = field(default_factory=CosmosOptions)
    console: ConsoleOptions = field(default_factory=ConsoleOptions)

    def console_options(self) -> ConsoleOptions:
        """Return the console's options, with where runs are: the folder of local ones, or the project of Cloud Run."""
        runs, has_runs = self.cloud.runs, "cloud" in self.systems
        folder = runs.folder if has_runs and runs.provider == "local" else None
        place = None
        if has_runs and runs.provider == "cloudrun" and self.console.enabled:
            place = cloud_run_place(runs.cloud_run_project, runs.cloud_run_location)
        return replace(self.console, runs_folder=folder, cloud_run=place)

    @property
    def shares(self) -> bool:
        """Whether other managers work on tenants, sets of nodes and Instances at the same time."""
        return self.shards or self.slots is not None

    def sharding(self) -> ShardingOptions | None:
        """Return the runtime's part of sharing; None for a manager that works on all. Raises ValueError for a bad name.

        Managers of versions that divided less have their leader work on all sets of nodes, or all Instances: the rule keeps it
        from doing so beside members that divide them.
        """
        if not self.shares:
            return None
        without_tenants = COSMOS_GROUP if "cosmos" in self.systems else CLOUD_GROUP
        group = SHARD_GROUP if "tenancy" in self.systems else without_tenants
        rule = LABEL_VERSION + ("cosmos" in self.systems) + 2 * ("cloud" in self.systems)
        return ShardingOptions(group=group, slots=self.slots, member=self.shard_name, rule=rule)

    def protected_patterns(self) -> frozenset[str]:
        """Return those of Kubernetes, those of `--protected-namespace`, and the manager's own."""
        own = frozenset({self.own_namespace} if self.own_namespace else ())
        return KUBERNETES_NAMESPACES | self.tenancy.protected_namespaces | own

    def manager_options(self) -> ManagerOptions:
        """Return the runtime's part of the options."""
        return replace(
            self.served_options("manager"),
            namespaces=self.namespaces or None,
            sharding=self.sharding(),
            webhook=WebhookOptions(
                port=self.webhook_port,
                certificate_folder=self.webhook_cert_path,
                certificate_name=self.webhook_cert_name,
                key_name=self.webhook_cert_key,
                client_ca=self.webhook_client_ca,
                secret_name=self.webhook_secret_name,
                secret_namespace=self.webhook_secret_namespace,
                service_name=self.webhook_service_name,
                mutating_configurations=(mutating_name(self.webhook_configuration),),
                validating_configurations=(self.webhook_configuration,),
            ),
            events=EventOptions(queue_size=EVENTS_WAITING),
        )
