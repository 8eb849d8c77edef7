"""Instance: one customer's deployment."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from apis.approvals import RequireApprovalBy
from apis.windows import MaintenanceWindow
from ctrlruntime.api import CEL, ApiModel, Duration, Int32, ListMap, Resource

from .columns import progress_columns
from .common import GROUP, VERSION, Hook, HTTPRequest, TaskPriority
from .instance_cluster import Cluster
from .instance_infrastructure import Infrastructure
from .instance_runs import DriftDetection, TerraformRuns
from .instance_status import InstanceStatus

__all__ = [
    "CustomDomain",
    "Debug",
    "DeletionPolicy",
    "Host",
    "Instance",
    "InstanceSpec",
    "Invariant",
    "ManagedSMTP",
    "ReleaseChannel",
    "UpgradePolicy",
    "UpgradeSettings",
    "written_version",
]

Host = Annotated[str, Field(min_length=1, max_length=253)]
"""A DNS name."""


class DeletionPolicy(StrEnum):
    """What becomes of what was built when the Instance is deleted."""

    DELETE = "Delete"
    """It is torn down, unless the Instance is protected."""
    ORPHAN = "Orphan"
    """The objects go, protected or not, and everything that they made stays. It is reported by event and log."""


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


class UpgradePolicy(ApiModel):
    """Which changes of version are permitted.

    The annotation cloud.ctrlruntime.dev/allow-version permits the version that it names. A rollback of a FleetRollout
    is permitted.
    """

    allow_downgrade: bool = False
    """Whether an older version may follow a newer one."""
    max_minor_step: Annotated[Int32, Field(ge=1, le=1000)] | None = None
    """Minor versions that one upgrade may go ahead; any number if not given. A next major version begins with x.0."""


class Debug(ApiModel):
    """Switches for operators."""

    tfc_runs_mode: Annotated[str, Field(pattern="^(cli|vcs)$")] = "cli"
    """Who starts Terraform runs: this control plane, or commits to a repository."""
    enable_alerting: bool = True
    """Whether alerts are on."""
    enable_deletion_protection: bool = True
    """Nothing is torn down while this is on, even if the object is deleted. ``spec.deletionProtection`` wins over it."""


class ManagedSMTP(ApiModel):
    """Mail sent through the platform's own vendor."""

    disabled: bool = False
    """The instance sends its mail itself."""


_ApplicationVersion = Annotated[
    str, Field(min_length=1, max_length=128, pattern="^[A-Za-z0-9][-A-Za-z0-9._+]*$")
]
_FORMER_NAME = "sourcegraphVersion is the former name of version, remove it or give both one value"


def written_version(spec: Mapping[str, Any]) -> str:
    """Return the version of a spec as it is stored, under whichever name; empty: it has none."""
    return str(spec.get("version") or spec.get("sourcegraphVersion") or "")


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
        CEL(
            "has(self.version) || has(self.sourcegraphVersion)",
            message="version is required: the version of the application",
        ),
        CEL(
            "!has(self.version) || !has(self.sourcegraphVersion) || self.version == self.sourcegraphVersion",
            message=f"version and sourcegraphVersion differ: {_FORMER_NAME}",
            field_path=".sourcegraphVersion",
        ),
    ),
):
    """What the deployment should be."""

    version: _ApplicationVersion | None = None
    """Version of the application. Required, unless it stands under its former name."""
    sourcegraph_version: _ApplicationVersion | None = None
    """The former name of version, accepted as before. If both are given, they are the same."""
    upgrade_policy: UpgradePolicy = Field(default_factory=UpgradePolicy)
    """Which changes of the version are permitted."""
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
    deletion_protection: bool | None = None
    """Whether nothing is torn down, even if the object is deleted; default: as ``debug.enableDeletionProtection``
    has it. While it is on, one teardown may be approved by the annotation ``cloud.ctrlruntime.dev/allow-delete``."""
    require_approval_by: RequireApprovalBy | None = None
    """Whose approvals count, of removals, plans, versions and what was lost; by default those of everyone who may write
    them. While it is set, only a member of the group changes it and the fields that decide what needs an approval."""
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    """What becomes of what was built when the Instance is deleted."""
    debug: Debug = Field(default_factory=Debug)
    """Switches for operators."""
    managed_smtp: ManagedSMTP = Field(default_factory=ManagedSMTP, alias="managedSMTP")
    """Mail."""

    @model_validator(mode="after")
    def _one_version(self) -> Self:
        given = {self.version, self.sourcegraph_version} - {None}
        if len(given) != 1:
            both = f"version and sourcegraphVersion differ: {_FORMER_NAME}"
            raise ValueError(both if given else "version is required")
        return self

    @property
    def wanted_version(self) -> str:
        """The version of the application, under whichever name it was given."""
        return self.version or self.sourcegraph_version or ""

    def version_change(self, to: str) -> dict[str, str]:
        """Return the patch to another version, under the names that it is given by: no field of another manager is taken."""
        former = {} if self.sourcegraph_version is None else {"sourcegraphVersion": to}
        return {"version": to, **former} if self.version or not former else former

    @property
    def protected(self) -> bool:
        """Whether nothing is torn down."""
        given = self.deletion_protection
        return self.debug.enable_deletion_protection if given is None else given


class Instance(
    Resource[InstanceSpec, InstanceStatus],
    group=GROUP,
    version=VERSION,
    plural="instances",
    categories=("cloud",),
    print_columns=progress_columns(version=".status.version", task=".status.task"),
    rules=(CEL("has(self.spec)", message="spec is required"),),
):
    """One customer's deployment."""
