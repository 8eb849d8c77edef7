"""The kinds of all systems, owners before what they own."""

from typing import Final

from apis.cloud import (
    FleetRollout,
    Instance,
    InstanceInvariants,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceTerraform,
    UpgradeInstanceTask,
)
from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob
from apis.fleet import FleetConfig
from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate

PLANE_KINDS: Final = (
    ChangeFreeze,
    TenantRegistry,
    TenantTemplate,
    Tenant,
    FleetRollout,
    Instance,
    InstanceTerraform,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceInvariants,
    UpgradeInstanceTask,
    CosmosFullNode,
    ScheduledVolumeSnapshot,
    StatefulJob,
)
"""What a data plane serves: all but the kind of the hub."""
KINDS: Final = (FleetConfig, *PLANE_KINDS)
GROUPS: Final = frozenset(kind.gvk().group for kind in KINDS)
