"""Instance: one customer's deployment."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.references import Name, SecretKeyRef, SecretRef
from apis.windows import MaintenanceWindow
from ctrlruntime.api import (
    CEL,
    ApiModel,
    Conditions,
    Duration,
    Int32,
    ListMap,
    MicroTime,
    Quantity,
    RawExtension,
    Resource,
)

from .columns import progress_columns
from .common import (
    GROUP,
    VERSION,
    Hook,
    HTTPRequest,
    Phase,
    PlanApproval,
    TaskPriority,
    Waiting,
)

__all__ = [
    "GCP",
    "GKE",
    "AssignedVersion",
    "Bundle",
    "ChildSummary",
    "Cluster",
    "ClusterValues",
    "CustomDomain",
    "Debug",
    "DiskPolicy",
    "DriftAction",
    "DriftDetection",
    "EnvironmentFrom",
    "GCPStatus",
    "GKEPool",
    "HelmChart",
    "Infrastructure",
    "Instance",
    "InstanceSpec",
    "InstanceStatus",
    "Invariant",
    "ManagedSMTP",
    "NamedResource",
    "PrivateCodeHost",
    "PrivateCodeHostAWS",
    "PrivateDNS",
    "PrivateDNSRoute",
    "PrivateLink",
    "ReleaseChannel",
    "TerraformModule",
    "TerraformOperation",
    "TerraformRuns",
    "TerraformSettings",
    "UpgradeSettings",
]

Host = Annotated[str, Field(min_length=1, max_length=253)]
"""A DNS name."""


class ReleaseChannel(StrEnum):
    """Which bulk upgrades reach the instance."""

    STABLE = "stable"
    INSIDERS = "insiders"
    """Upgraded by itself, earlier; bulk upgrades pass it by."""
    PAUSE = "pause"
    """Stays at its version; bulk upgrades pass it by."""


class CustomDomain(ApiModel):
    """A further name that the instance is reached by."""

    dns_name: Host
    """The name."""
    primary: bool = False
    """Whether it takes the place of the primary name."""


class GKEPool(ApiModel):
    """The machines of one cluster."""

    machine_type: Annotated[str, Field(min_length=1)]
    """Machine type, such as n2-standard-8."""
    additional_oauth_scopes: list[str] = Field(default_factory=list)
    """OAuth scopes beside the default ones."""


class GKE(ApiModel):
    """The clusters; one serves, the other is there while a change is under way."""

    blue: GKEPool | None = None
    """The blue cluster."""
    green: GKEPool | None = None
    """The green cluster."""


class GCP(
    ApiModel,
    rules=(
        CEL(
            "!has(oldSelf.projectId) || (has(self.projectId) && self.projectId == oldSelf.projectId)",
            message="projectId cannot be changed once it is set: create another Instance",
            field_path=".projectId",
        ),
    ),
):
    """Where the instance runs on Google Cloud."""

    zone: Annotated[
        str,
        Field(min_length=1),
        CEL(
            "self == oldSelf",
            message="zone cannot be changed: create another Instance",
        ),
    ]
    """Zone; immutable, since everything would be built again elsewhere."""
    project_id: str | None = None
    """Project; default: the Terraform configuration decides. Immutable once it is set."""
    gke: GKE = Field(default_factory=GKE)
    """The clusters."""


class PrivateLink(ApiModel):
    """One endpoint that is reached privately."""

    endpoint: Annotated[str, Field(min_length=1)]
    """Service name of the endpoint."""
    ports: list[Int32] = Field(default_factory=list)
    """Ports to open."""
    private_dns_enabled: bool = False
    """Use the endpoint's private DNS name."""


class PrivateCodeHostAWS(ApiModel):
    """An AWS account that hosts code."""

    account_id: Annotated[str, Field(alias="accountID", pattern="^[0-9]{12}$")]
    """The account."""
    region: Annotated[str, Field(min_length=1)]
    """The region."""
    high_available: bool = False
    """Two tunnels rather than one."""
    private_links: Annotated[list[PrivateLink], ListMap("endpoint")] = Field(default_factory=list)
    """The endpoints."""


class PrivateCodeHost(ApiModel):
    """A code host that is not on the internet."""

    enabled: bool = False
    """Whether there is one."""
    aws: PrivateCodeHostAWS | None = None
    """The account it is in."""


class PrivateDNSRoute(ApiModel):
    """Names that another server resolves."""

    source: Annotated[str, Field(min_length=1)]
    """Zone to resolve."""
    destination: Annotated[str, Field(min_length=1)]
    """Network it is reached by."""
    resolver_ip: Annotated[str, Field(alias="resolverIP", min_length=1)]
    """The server."""


class PrivateDNS(ApiModel):
    """Private DNS zones."""

    routes: list[PrivateDNSRoute] = Field(default_factory=list)
    """The zones."""


class TerraformModule(ApiModel):
    """The Terraform module of an instance. It gets the instance's fields as variables."""

    source: Annotated[str, Field(min_length=1)]
    """Source address, as in a module block."""
    version: str | None = None
    """Version constraint, for modules of a registry."""
    inputs: RawExtension = Field(default_factory=dict)
    """Further input variables."""
    outputs: list[str] = Field(default_factory=list)
    """Outputs of the module to hand on; marked sensitive ones go to a Secret."""
    sensitive_outputs: list[str] = Field(default_factory=list)
    """Outputs of the module that must not be seen."""


class TerraformSettings(ApiModel):
    """How the infrastructure is built."""

    type: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Type of infrastructure, of the manager's `--terraform-types-file`: it gives the module and the other fields that
    are not set here."""
    organization: str | None = None
    """HCP Terraform organization; without it a local terraform or tofu binary is used."""
    address: str = "https://app.terraform.io"
    """Address of HCP Terraform, or of Terraform Enterprise."""
    project_id: str | None = None
    """HCP Terraform project of new workspaces."""
    token_from: SecretKeyRef | None = None
    """API token."""
    workspace: str | None = None
    """Workspace; default: namespace and name of the instance with a digest of both, such as
    `prod-acme-02f0b798d2dbc0eb3436`."""
    terraform_version: str | None = None
    """Version of Terraform that the workspace runs."""
    module: TerraformModule | None = None
    """The module; without it, the clusters above are rendered as they are."""


class EnvironmentFrom(ApiModel):
    """Environment variables of a local terraform or tofu binary: one for each key of a Secret."""

    secret_ref: SecretRef
    """The Secret."""
    prefix: Annotated[str, Field(pattern="^([A-Za-z_][A-Za-z0-9_]*)?$")] = ""
    """What stands before each key, such as `TF_VAR_`."""


class Infrastructure(
    ApiModel,
    rules=(
        CEL(
            "!has(oldSelf.gcp) || has(self.gcp)",
            message="gcp cannot be removed: its zone and projectId are immutable",
            field_path=".gcp",
        ),
    ),
):
    """What the instance runs on."""

    gcp: GCP | None = None
    """Google Cloud."""
    private_code_host: PrivateCodeHost | None = None
    """A code host that is not on the internet."""
    private_dns: PrivateDNS | None = Field(default=None, alias="privateDNS")
    """Private DNS zones."""
    terraform: TerraformSettings | None = None
    """How it is built; without it there is no infrastructure to build."""
    environment_from: Annotated[list[EnvironmentFrom], Field(max_length=16)] = Field(
        default_factory=list
    )
    """Variables and credentials of a local binary; later ones win. HCP Terraform has its own."""


class ClusterValues(ApiModel):
    """Overlays."""

    values_files: list[str] = Field(default_factory=list)
    """Files of values in the bundle, later ones win."""


class HelmChart(ApiModel):
    """A Helm chart."""

    chart: Annotated[str, Field(min_length=1)]
    """Chart: its name in the repository, an OCI address or a path in the bundle."""
    repository: str | None = None
    """Address of the repository."""
    version: str | None = None
    """Version of the chart; `${version}` is the instance's."""
    values: RawExtension = Field(default_factory=dict)
    """Values, over those of the values files."""


class Bundle(
    ApiModel,
    rules=(
        CEL(
            "!(has(self.kustomize) && self.kustomize && has(self.helm))",
            message="a bundle is a kustomization or a chart, not both",
        ),
    ),
):
    """What runs in the cluster.

    `${version}`, `${domain}`, `${instance}` and `${outputs.NAME}` are replaced in every string.
    """

    manifests: list[RawExtension] = Field(default_factory=list)
    """Whole manifests."""
    config_map_names: list[Name] = Field(default_factory=list)
    """ConfigMaps beside the instance whose keys are files of manifests or values."""
    kustomize: bool = False
    """The ConfigMaps hold a kustomization."""
    helm: HelmChart | None = None
    """A chart to render."""


class DiskPolicy(ApiModel):
    """How claims grow."""

    claim_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the claims; all claims of the namespace if empty."""
    usage_threshold_percent: Annotated[Int32, Field(ge=1, le=99)] = 80
    """A claim that is fuller grows."""
    increase_percent: Annotated[Int32, Field(ge=1, le=500)] = 20
    """By how much, of its size."""
    max_size: Quantity
    """No claim grows beyond."""
    cooldown: Duration | None = None
    """Between two steps of one claim; default 6 h, the least that cloud disks allow."""
    period: Duration | None = None
    """How often claims are looked at; by default every 10 min to 6 h, the rarer the more room there is."""
    usage: HTTPRequest
    """Answers `{"claims": [{"name": …, "usedBytes": …, "capacityBytes": …}]}`, such as a Prometheus
    exporter beside the cluster."""


class Cluster(ApiModel):
    """The instance's cluster and what runs there."""

    kubeconfig_from: SecretKeyRef | None = None
    """Kubeconfig of the cluster; default: the output `kubeconfig` of the infrastructure."""
    namespace: Annotated[str, Field(min_length=1, max_length=63)] = "default"
    """Namespace for manifests that name none."""
    bundle: Bundle = Field(default_factory=Bundle)
    """What runs there."""
    values: ClusterValues = Field(default_factory=ClusterValues)
    """Overlays."""
    ready_timeout_seconds: Annotated[Int32, Field(ge=1, le=86400)] = 900
    """How long the workload may take to become ready."""
    drift_period: Duration | None = None
    """How often the bundle is applied again although nothing changed, which restores what was edited or deleted; 1 min at
    least, default: never. In the cluster of the manager itself, that is noticed at once and needs no period."""
    disks: DiskPolicy | None = None
    """Makes claims grow; without it they are left alone."""


class Invariant(ApiModel):
    """Something that has to be true of the running instance, and how to make it so."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Its name."""
    check: HTTPRequest
    """It holds if the answer is good."""
    ensure: list[HTTPRequest] = Field(default_factory=list)
    """Sent one after another when it is not; then it is checked again."""
    on_delete: list[HTTPRequest] = Field(default_factory=list)
    """Sent when the instance goes."""


class UpgradeSettings(ApiModel):
    """The steps around a change of version. A step that is not given is left out."""

    health_check: HTTPRequest | None = None
    """Has to be good before anything is touched."""
    backup: Hook | None = None
    """Takes a backup."""
    migrate: Hook | None = None
    """Migrates the database; the workload stays as it is until this has succeeded."""
    verify: HTTPRequest | None = None
    """Has to be good afterwards, such as a page that shows the version."""
    verify_timeout_seconds: Annotated[Int32, Field(ge=1, le=86400)] = 600
    """How long it may take to become good."""
    max_check_age_seconds: Annotated[Int32, Field(ge=0, le=604800)] = 3600
    """Health check and backup of an earlier attempt that are older are carried out again before the
    migration; after a migration that failed they always are."""


class Debug(ApiModel):
    """Switches for operators."""

    tfc_runs_mode: Annotated[str, Field(pattern="^(cli|vcs)$")] = "cli"
    """Who starts Terraform runs: this control plane, or commits to a repository."""
    enable_alerting: bool = True
    """Whether alerts are on."""
    enable_deletion_protection: bool = True
    """Nothing is torn down while this is on, even if the object is deleted."""


class DriftAction(StrEnum):
    """What becomes of infrastructure that differs from what was applied."""

    REPORT = "Report"
    """It is reported."""
    APPLY = "Apply"
    """It is applied again, unless the plan destroys something; then it is reported."""


class DriftDetection(ApiModel):
    """When the infrastructure is compared with what was applied, by a plan."""

    schedule: Annotated[str, Field(min_length=1, max_length=256)]
    """When: a cron expression of five fields, or such as @daily."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Time zone of the schedule such as Europe/Berlin; default: UTC."""
    action: DriftAction = DriftAction.REPORT
    """What becomes of what differs."""


class TerraformOperation(StrEnum):
    """What runs of Terraform do."""

    APPLY = "Apply"
    """Plan, and apply the plan."""
    PLAN = "Plan"
    """Plan only: the plan is in the status, and nothing is applied."""


class TerraformRuns(ApiModel):
    """What comes between a plan of Terraform and its application. A deletion is not part of it."""

    operation: TerraformOperation = TerraformOperation.APPLY
    """What runs do."""
    approval: PlanApproval = PlanApproval.AUTOMATIC
    """Who decides that a plan is applied. One that destroys or replaces something always waits for an approval."""


class ManagedSMTP(ApiModel):
    """Mail sent through the platform's own vendor."""

    disabled: bool = False
    """The instance sends its mail itself."""


class InstanceSpec(
    ApiModel,
    rules=(
        CEL(
            "!has(self.terraformRuns) || !has(self.debug) || !has(self.debug.tfcRunsMode)"
            " || self.debug.tfcRunsMode != 'vcs'",
            message="terraformRuns cannot be used with debug.tfcRunsMode vcs: there the workspace decides"
            " (its apply method), leave terraformRuns out",
            field_path=".terraformRuns",
        ),
    ),
):
    """What the deployment should be."""

    sourcegraph_version: Annotated[str, Field(min_length=1)]
    """Version of the application."""
    release_channel: ReleaseChannel = ReleaseChannel.STABLE
    """Which bulk upgrades reach the instance."""
    domain: Host | None = None
    """Name the instance is reached by; no other instance has the same."""
    primary_dns_name: Host | None = Field(default=None, alias="primaryDNSName")
    """The newer spelling of domain; wins over it."""
    custom_domains: Annotated[list[CustomDomain], ListMap("dnsName")] = Field(default_factory=list)
    """Further names."""
    instance_features: dict[str, str] = Field(default_factory=dict)
    """Features; `ephemeral_instance` and `ephemeral_instance_lease_time` among them."""
    infrastructure: Infrastructure = Field(default_factory=Infrastructure)
    """What it runs on."""
    cluster: Cluster = Field(default_factory=Cluster)
    """Its cluster and what runs there."""
    invariants: Annotated[list[Invariant], ListMap("name")] = Field(default_factory=list)
    """What has to be true of the running instance."""
    invariants_period: Duration | None = None
    """How often the invariants are enforced again; default 24 h."""
    upgrade: UpgradeSettings = Field(default_factory=UpgradeSettings)
    """The steps around a change of version."""
    maintenance_windows: Annotated[list[MaintenanceWindow], Field(max_length=16)] = Field(
        default_factory=list
    )
    """Once a version is deployed, runs that change or destroy something start only while one of these is open;
    without any, at all times. Periodic runs of unchanged inputs do not wait."""
    priority: TaskPriority | None = None
    """How early the instance's runs get a place when runs of other instances wait too; a FleetRollout may raise it for
    its version. Periodic runs of unchanged inputs are never High. Default: Normal."""
    drift_detection: DriftDetection | None = None
    """When the infrastructure is compared with what was applied; without it, never. Not with tfcRunsMode vcs."""
    terraform_runs: TerraformRuns | None = None
    """Whether plans are applied, and who approves them; without it, plans that destroy nothing are applied at once.
    Not with tfcRunsMode vcs."""
    debug: Debug = Field(default_factory=Debug)
    """Switches for operators."""
    managed_smtp: ManagedSMTP = Field(default_factory=ManagedSMTP, alias="managedSMTP")
    """Mail."""


class NamedResource(ApiModel):
    """Something with a name that is known only once it exists."""

    name: str
    """The name."""


class GCPStatus(ApiModel):
    """What is known of Google Cloud after the infrastructure was built."""

    project_id: str = ""
    """Project."""
    region: str = ""
    """Region."""
    gke_clusters: list[NamedResource] = Field(default_factory=list)
    """Clusters."""
    cloud_sql: list[NamedResource] = Field(default_factory=list, alias="cloudSQL")
    """Databases."""


class ChildSummary(ApiModel):
    """One subresource."""

    kind: str
    """Kind."""
    name: str
    """Name."""
    phase: Phase = Phase.PENDING
    """Where it stands."""
    ready: bool = False
    """Whether its current inputs have been carried out."""
    message: str = ""
    """What it reports."""
    run_id: str = Field(default="", alias="runID")
    """Its run under way, or else its last one."""


class AssignedChange(ApiModel):
    """The change by which a rollout assigned a version."""

    kind: str
    """What it was, such as `RollOut` or `RollBack`."""
    at: str
    """When it was, to the microsecond."""
    previous: str = ""
    """The version that a rollback returns to."""
    refused: str = ""
    """Of a rollback, the version that was left."""
    irreversible: bool = False
    """Whether a rollback leaves the instance in this version."""
    fix: bool = False
    """Whether the instance had failed before."""


class AssignedVersion(ApiModel):
    """A version that stands in place of the spec's."""

    version: str
    """The version."""
    rollout: str = ""
    """The FleetRollout that assigned it."""
    spec_version: str = ""
    """The version of the spec at that time. Once the spec has another one, the spec counts again."""
    assigned_at: MicroTime | None = None
    """When it was assigned."""
    change: AssignedChange | None = None
    """What the rollout did, so that its record can be restored."""
    message: str = ""
    """Why, in one sentence."""


class InstanceStatus(ApiModel):
    """What the deployment is."""

    observed_generation: int = 0
    """The generation that the status was computed for."""
    phase: Phase = Phase.PENDING
    """Where it stands."""
    message: str = ""
    """One sentence: what is going on, or what to do."""
    version: str = ""
    """Version that is deployed."""
    assigned_version: AssignedVersion | None = None
    """The version that a rollout assigned in place of the spec's; none: the spec counts."""
    task: str = ""
    """The task under way."""
    waiting: Waiting | None = None
    """What that task waits for."""
    children: Annotated[list[ChildSummary], ListMap("kind", "name")] = Field(default_factory=list)
    """The subresources, in the order in which they are carried out."""
    outputs: dict[str, str] = Field(default_factory=dict)
    """What the subresources handed back."""
    domains: list[str] = Field(default_factory=list)
    """Names that no other instance may take: those of the spec, and earlier ones until they are given
    up by the infrastructure."""
    gcp: GCPStatus | None = None
    """What is known of Google Cloud after the infrastructure was built."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, and what stands in its way."""
    last_handled_retry: str = ""
    """The value of the annotation that requests a retry when it was last carried out."""


class Instance(
    Resource[InstanceSpec, InstanceStatus],
    group=GROUP,
    version=VERSION,
    plural="instances",
    categories=("cloud",),
    print_columns=progress_columns(version=".status.version", task=".status.task"),
):
    """One customer's deployment."""
