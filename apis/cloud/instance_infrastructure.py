"""What an Instance runs on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from apis.references import SecretKeyRef, SecretRef
from ctrlruntime.api import CEL, ApiModel, Int32, ListMap, RawExtension

__all__ = [
    "GCP",
    "GKE",
    "EnvironmentFrom",
    "GKEPool",
    "Infrastructure",
    "PrivateCodeHost",
    "PrivateCodeHostAWS",
    "PrivateDNS",
    "PrivateDNSRoute",
    "PrivateLink",
    "TerraformModule",
    "TerraformSettings",
]


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
