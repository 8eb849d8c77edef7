"""FleetConfig: which namespaces get a stack of controllers, and how each of them is."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.columns import AGE, condition_column
from apis.deletions import Removals
from apis.references import NamespaceOrNone
from ctrlruntime.api import CEL, ApiModel, Conditions, Quantity, RawExtension, Resource, Time

from .common import GROUP, VERSION

__all__ = [
    "DEFAULT_NAMESPACE",
    "LONGEST_MESSAGE",
    "NAME",
    "FleetConfig",
    "FleetConfigSpec",
    "FleetConfigStatus",
    "PullSecret",
    "Reason",
    "ScaleMode",
    "StackPods",
    "StackResources",
    "TargetNamespace",
    "TargetResult",
]

NAME = "fleet"
"""The name of the only FleetConfig."""
DEFAULT_NAMESPACE = "fleet"
"""Where the stack goes if nothing else is given."""
LONGEST_MESSAGE = 256
"""Characters of a target namespace's message."""


class ScaleMode(ApiModel):
    """One stack of controllers for each data plane."""

    enabled: bool = False
    """Deploy to every namespace that is labelled fleet.ctrlruntime.dev/data-plane=true."""


class StackResources(ApiModel):
    """What a container may use; a resource that is left out stays as it is by default."""

    requests: dict[str, Quantity] = Field(default_factory=dict)
    """What is set aside. Default: cpu 100m, memory 256Mi."""
    limits: dict[str, Quantity] = Field(default_factory=dict)
    """The most that may be used. Default: cpu 2, memory 1Gi, which holds about 30,000 tenants of five objects."""


class PullSecret(ApiModel):
    """A Secret by its name."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the Secret."""


class StackPods(ApiModel):
    """Pods of stacks: where they run and what they get."""

    controllers: StackResources = Field(default_factory=StackResources)
    """Of fleet-controllers."""
    admission: StackResources = Field(default_factory=StackResources)
    """Of fleet-admission."""
    workers: StackResources = Field(default_factory=StackResources)
    """Of fleet-workers."""
    shards: Annotated[int, Field(ge=0, le=64)] = 0
    """Members that share the Tenants of a data plane, as Pods of fleet-workers; fleet-controllers has none then. 0: one Pod of
    fleet-controllers works on all."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the machines to run on."""
    tolerations: list[RawExtension] = Field(default_factory=list)
    """Taints that are tolerated."""
    image_pull_secrets: list[PullSecret] = Field(default_factory=list)
    """Secrets with credentials for the image, in each namespace of a stack."""
    priority_class_name: Annotated[str, Field(max_length=253)] = ""
    """PriorityClass."""


class FleetConfigSpec(ApiModel):
    """Where stacks are deployed: to one namespace, or in scale mode to those that are labelled."""

    target_namespace: NamespaceOrNone = ""
    """The namespace of the only stack, which works on this cluster. Default fleet. Not with scaleMode.enabled."""
    scale_mode: ScaleMode = Field(default_factory=ScaleMode)
    """A stack for each data plane."""
    stack_pods: StackPods = Field(default_factory=StackPods)
    """Pods of all stacks. A change rolls them."""


class TargetResult(StrEnum):
    """Whether a stack is deployed and healthy."""

    FAILURE = "Failure"
    SUCCESS = "Success"


class Reason(StrEnum):
    """Why a target namespace has its result."""

    SUCCESSFUL_DEPLOYMENT = "SuccessfulDeployment"
    """The stack is deployed, and its controllers hold the Lease on their data plane."""
    DEPLOYMENT_FAILURE = "DeploymentFailure"
    """The hub refused an object of the stack."""
    KUBECONFIG_SECRET_MISSING = "KubeconfigSecretMissing"  # noqa: S105 - a reason
    """There is no Secret data-plane-kubeconfig."""
    KUBECONFIG_INVALID = "KubeconfigInvalid"
    """The Secret holds no kubeconfig that can be used."""
    STACK_NOT_AVAILABLE = "StackNotAvailable"
    """Pods of the stack are missing, or its controllers do not hold the Lease on the data plane."""
    UNREACHABLE = "DataPlaneUnreachable"
    """The data plane does not answer."""
    FORBIDDEN = "DataPlaneForbidden"
    """The data plane refuses the credentials, or they lack rights."""
    NOT_PREPARED = "DataPlaneNotPrepared"
    """CRDs or the namespace fleet-system are missing on the data plane, or old."""
    NOT_UNIQUE = "DataPlaneNotUnique"
    """Another target namespace has the same data plane."""
    CHANGED = "DataPlaneChanged"
    """The kubeconfig leads to another data plane than the one that the stack was deployed for."""
    FULL = "DataPlaneFull"
    """The data plane takes no more writes."""


class TargetNamespace(ApiModel):
    """One stack."""

    name: str
    """The namespace."""
    result: TargetResult
    """Success or Failure."""
    reason: str
    """Why, for programs."""
    message: Annotated[str, Field(max_length=LONGEST_MESSAGE)] = ""
    """Why, for people."""
    last_transition_time: Time
    """When result or reason last changed."""


class FleetConfigStatus(ApiModel):
    """How the stacks are."""

    observed_generation: int = 0
    """The metadata.generation that was looked at last."""
    target_namespaces: list[TargetNamespace] = Field(default_factory=list)
    """Each target namespace, failures first, then by name."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, TeardownComplete; OrphansHeld and DeletionsHeld once something has waited for an approval."""
    removals: Removals | None = None
    """Stacks of data planes that were permitted to go lately, and approvals, by UID of their namespaces."""
    removals_unknown_since: Time | None = None
    """When this status was found wiped, restored from a backup or put back older, although stacks were there: within a day
    no stack goes by a change of the mode without an approval."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""


class FleetConfig(
    Resource[FleetConfigSpec, FleetConfigStatus],
    group=GROUP,
    version=VERSION,
    plural="fleetconfigs",
    scope="Cluster",
    categories=("fleet",),
    print_columns=(
        condition_column("Ready", "Ready"),
        condition_column("Reason", "Ready", "reason"),
        AGE,
        condition_column("Message", "Ready", "message"),
    ),
    rules=(
        CEL(
            f"self.metadata.name == '{NAME}'",
            message=f"there is one FleetConfig only: name it {NAME}",
        ),
    ),
):
    """Deploys stacks of controllers: one for this cluster, or in scale mode one for each data plane."""
