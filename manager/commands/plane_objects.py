"""Objects of the hub that belong to data planes: found, counted, and deleted for a data plane that is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apis.cloud import (
    Instance,
    InstanceInvariants,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceTerraform,
    UpgradeInstanceTask,
)
from apis.cosmos import CosmosFullNode, StatefulJob
from apis.fleet.labels import DATA_PLANE
from apis.tenancy import DeletionPolicy, Tenant
from ctrlruntime.api import BUILTIN, RESTMapping
from ctrlruntime.client import Client, Conflict, NotFound
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.resources import OWNER, OWNER_UID, OwnerKey, evidence_of, removal_of, remove_object
from internal.cloud.labels import FIELD_MANAGER as CLOUD_MANAGER
from internal.cloud.tasks.kubernetes.inventory import FIELD_MANAGER as BUNDLE_MANAGER
from internal.cosmos.labels import FIELD_MANAGER as COSMOS_MANAGER
from internal.fleet.pods import WORKLOADS
from internal.fleet.routing import FOLLOWERS
from internal.tenancy.shared.labels import FIELD_MANAGER as TENANCY_MANAGER
from internal.tenancy.shared.policies import deletion_policy, is_orphaned

ON_HUB: Final = tuple(
    mapping
    for mapping in BUILTIN.values()
    if mapping.gvk.group_kind in WORKLOADS | FOLLOWERS and mapping.namespaced
)
"""Kinds whose objects stacks write on the hub. Namespaces are left out: what is in them may be of others."""

OWNERS: Final = (
    Tenant,
    CosmosFullNode,
    StatefulJob,
    Instance,
    InstanceTerraform,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceInvariants,
    UpgradeInstanceTask,
)
"""Kinds on data planes whose objects are on the hub, and go with them."""

STACK_MANAGERS: Final = frozenset({TENANCY_MANAGER, COSMOS_MANAGER, CLOUD_MANAGER, BUNDLE_MANAGER})
"""Field managers of what stacks write."""


@dataclass(frozen=True, slots=True)
class PlaneObject:
    """An object of the hub, and whose it is."""

    mapping: RESTMapping
    namespace: str
    name: str
    uid: str
    data_plane: str
    """The data plane's id."""
    owner: str
    """Key of its owner on the data plane, which is of one of OWNERS."""
    retained: bool
    """Whether it stays when its owner goes: by its deletion policy, or as no stack has written it."""
    evidence: Evidence
    """How certain it is that a stack wrote it."""


def goes_with_owner(annotations: Mapping[str, str], labels: Mapping[str, str], plane: str) -> bool:
    """Return whether an object has an owner on this data plane, and is deleted with it."""
    key = OwnerKey.parse(annotations.get(OWNER, ""))
    if key is None or key.cluster != plane or OWNER_UID not in annotations:
        return False
    if key.kind != str(Tenant.gvk().group_kind):
        return True  # as the garbage collector has it where owner and object are in one cluster
    deleted = deletion_policy(annotations) is DeletionPolicy.DELETE
    return deleted and not is_orphaned(labels)


async def plane_objects(client: Client, plane: str = "") -> list[PlaneObject]:
    """List what the hub has of one data plane, or of all. Raises the client's errors."""
    selector = f"{DATA_PLANE}={plane}" if plane else DATA_PLANE
    found: list[PlaneObject] = []
    for mapping in ON_HUB:
        for item in await client.list(mapping, labels=selector, metadata_only=True):
            made = _object_of(mapping, item["metadata"])
            if made.owner.endswith(f"@{made.data_plane}"):
                found.append(made)
    return found


def _object_of(mapping: RESTMapping, metadata: Mapping[str, Any]) -> PlaneObject:
    annotations, labels = metadata.get("annotations") or {}, metadata["labels"]
    plane = labels[DATA_PLANE]
    evidence = evidence_of(metadata, STACK_MANAGERS)
    return PlaneObject(
        mapping,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        data_plane=plane,
        owner=annotations.get(OWNER, ""),
        retained=evidence is not Evidence.CERTAIN
        or not goes_with_owner(annotations, labels, plane),
        evidence=evidence,
    )


async def delete_objects(client: Client, objects: Iterable[PlaneObject]) -> int:
    """Delete exactly these objects. Return how many were there still. Raises the client's errors."""
    deleted = 0
    for each in objects:
        metadata = {"name": each.name, "namespace": each.namespace, "uid": each.uid}
        removal = removal_of(each.mapping, metadata, Cause.REQUESTED, each.evidence)
        try:
            held = await remove_object(client, each.mapping, removal, propagation="Background")
        except (NotFound, Conflict):
            continue
        deleted += held is None
    return deleted
