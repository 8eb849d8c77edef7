"""How scale mode has to end: each stack works, each tenant is on its data plane and its workload on the hub, and nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any, Final

from apis.fleet.labels import (
    DATA_PLANE,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    ORPHAN_RECORD,
    TARGET_NAMESPACE,
)
from apis.tenancy import Tenant
from ctrlruntime.envtest.simulation.cluster import Cluster
from internal.fleet.labels import CONTROLLERS
from tests.fleet.stack.harness import is_ready
from tests.simulation.systems.fleet_pods import KINDS
from tests.simulation.systems.fleet_rules import OF_TENANTS, TENANTS
from tests.simulation.systems.fleet_world import SHOP, Hub, Meant, Plane, mark_of

_CONFIGS: Final = "fleetconfigs.fleet.ctrlruntime.dev"
_WORKLOADS: Final = {"fleet-controllers", "fleet-admission", "fleet-workers"}
_HASH: Final = "fleet.ctrlruntime.dev/kubeconfig-hash"
_FOREIGN: Final = "kube-root-ca.crt"
Manifest = dict[str, Any]


def lacks(world: Meant) -> str:
    """Return what is not as users mean it; empty where all is."""
    return "\n".join(_lacks(world))


def _lacks(world: Meant) -> Iterator[str]:
    for hub in world.hubs.values():
        yield from (f"{hub.name}: {each}" for each in _stacks_lack(hub))
        yield from (f"{hub.name}: {each}" for each in _kubeconfigs_lack(hub))
        yield from (f"{hub.name}: {each}" for each in _grants_lack(hub))
        yield from (f"{hub.name}: {each}" for each in _requests_lack(world, hub))
        yield from (f"{hub.name}: {each}" for each in _workloads_lack(world, hub))
        yield from (f"{hub.name}: {each}" for each in _nodes_lack(hub))
        yield from (f"{hub.name}: {each}" for each in _records_lack(hub))
    for plane in world.planes.values():
        yield from (f"{plane.name}: {each}" for each in _plane_lacks(world, plane))


def _stacks_lack(hub: Hub) -> Iterator[str]:
    labelled = {name for name, labelled in hub.labelled.items() if labelled}
    for found in hub.cluster.objects(_CONFIGS):
        status = found.get("status") or {}
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            yield "the operator has not looked at the FleetConfig"
        entries = {each["name"]: each for each in status.get("targetNamespaces") or ()}
        if {*entries} != labelled:
            yield f"the status lists {sorted(entries)}, and {sorted(labelled)} have the label"
        for name, entry in sorted(entries.items()):
            if entry["reason"] != "SuccessfulDeployment":
                yield f"{name} is {entry['reason']}: {entry['message']}"
        for each in status.get("conditions") or ():
            if each["type"] == "Ready" and each["status"] != "True":
                yield f"the FleetConfig is not ready: {each['message']}"
    for each in hub.cluster.objects("namespaces"):
        labels, name = each["metadata"].get("labels") or {}, each["metadata"]["name"]
        if name in hub.labelled and (labels.get(TARGET_NAMESPACE) == "true") != (name in labelled):
            yield f"the namespace {name} has the labels {labels}"
    for name in sorted(hub.labelled):
        there = {
            each["metadata"]["name"]
            for resource in ("deployments.apps", "statefulsets.apps")
            for each in _within(hub.cluster, resource, name)
        }
        if there != (_WORKLOADS if name in labelled else set()):
            yield f"the namespace {name} has {sorted(there)}"


def _kubeconfigs_lack(hub: Hub) -> Iterator[str]:
    """The operator has looked at the present Secret: its hash is on all Pods."""
    for each in hub.cluster.objects("secrets"):
        name = each["metadata"]["namespace"]
        if each["metadata"]["name"] == KUBECONFIG_SECRET and hub.labelled.get(name):
            yield from _kubeconfig_lacks(hub, name, each)


def _kubeconfig_lacks(hub: Hub, name: str, secret: Manifest) -> Iterator[str]:
    digest = hashlib.sha256(base64.b64decode(secret["data"][KUBECONFIG_KEY])).hexdigest()[:32]
    for resource in ("deployments.apps", "statefulsets.apps"):
        for each in _within(hub.cluster, resource, name):
            if each["spec"]["template"]["metadata"]["annotations"].get(_HASH) != digest:
                yield f"{each['metadata']['name']} of {name} has another kubeconfig than there is"


def _requests_lack(world: Meant, hub: Hub) -> Iterator[str]:
    for name in sorted(hub.labelled):
        for each in _within(hub.cluster, "deployments.apps", name):
            (container,) = each["spec"]["template"]["spec"]["containers"]
            memory = container["resources"]["requests"]["memory"]
            if each["metadata"]["name"] == CONTROLLERS and memory != world.memory:
                yield f"the controllers of {name} request {memory}, not {world.memory}"


def _grants_lack(hub: Hub) -> Iterator[str]:
    names = {f"fleet-stack-{name}" for name, labelled in hub.labelled.items() if labelled}
    bindings = _within(hub.cluster, "rolebindings.rbac.authorization.k8s.io", SHOP)
    found = {each["metadata"]["name"] for each in bindings}
    found -= {name for name in found if name.startswith("fleet-secrets-")}
    if found != names:
        yield f"there are the bindings {sorted(found)}, meant are {sorted(names)}"


def _nodes_lack(hub: Hub) -> Iterator[str]:
    for resource in KINDS:
        for each in hub.cluster.objects(resource):
            metadata, status = each["metadata"], each.get("status") or {}
            if status.get("observedGeneration") != metadata["generation"]:
                yield f"the nodes have not looked at {resource} {metadata['name']}"


def _workloads_lack(world: Meant, hub: Hub) -> Iterator[str]:
    own = {name: each for name, each in world.planes.items() if each.hub == hub.name}
    wanted = {
        key: (own[tenant.plane].id, mark)
        for tenant in world.tenants.values()
        if tenant.plane in own
        for key, mark in tenant.on_hub.items()
    }
    ids = {each.id for each in own.values() if len(each.hubs) == 1}  # others left something
    found = {
        (resource, each["metadata"]["name"]): (
            str((each["metadata"].get("labels") or {}).get(DATA_PLANE)),
            mark_of(resource, each),
        )
        for resource in OF_TENANTS
        for each in _within(hub.cluster, resource, SHOP)
    }
    for key in sorted({*wanted} | {*found}):
        there, meant = found.get(key), wanted.get(key)
        if there != meant and (meant is not None or (there and there[0] in ids)):
            yield f"{'/'.join(key)} is {there}, not {meant}"
    for each in _within(hub.cluster, "deployments.apps", SHOP):
        if ("deployments.apps", each["metadata"]["name"]) in wanted and each["spec"][
            "replicas"
        ] != 1:
            yield f"{each['metadata']['name']} has {each['spec']['replicas']} replicas by hand"


def _plane_lacks(world: Meant, plane: Plane) -> Iterator[str]:
    wanted = {name: each for name, each in world.tenants.items() if each.plane == plane.name}
    found = {each["metadata"]["name"]: each for each in plane.cluster.objects(TENANTS)}
    if {*wanted} != {*found}:
        yield f"there are the tenants {sorted(found)}, meant are {sorted(wanted)}"
    for name in sorted({*wanted} & {*found}):
        tenant = Tenant.from_manifest(found[name])
        if not is_ready(tenant):
            conditions = (found[name].get("status") or {}).get("conditions")
            yield f"the tenant {name} is not ready: {conditions}"
    notes = {
        each["metadata"]["name"]: mark_of("configmaps", each)
        for each in _within(plane.cluster, "configmaps", SHOP)
    }
    meant = {f"{name}-note": str(each.marks[-1]) for name, each in wanted.items()}
    if notes != meant:
        yield f"there are {notes}, meant are {meant}"


def _records_lack(hub: Hub) -> Iterator[str]:
    """The workers of each plane lead there: the first that they write is what is left of owners that are gone."""
    there = {
        each["metadata"]["namespace"]
        for each in hub.cluster.objects("configmaps")
        if each["metadata"]["name"] == ORPHAN_RECORD
    }
    for name in sorted(name for name, labelled in hub.labelled.items() if labelled):
        if name not in there:
            yield f"the workers of {name} have not looked for objects whose owner is gone"


def _within(cluster: Cluster, resource: str, namespace: str) -> list[Manifest]:
    return [
        each
        for each in cluster.objects(resource)
        if each["metadata"]["namespace"] == namespace and each["metadata"]["name"] != _FOREIGN
    ]
