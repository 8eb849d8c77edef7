"""How the tenancy system has to end: everything is there that users mean, nothing else, and the statuses are true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.envtest.simulation import Simulation
from tests.simulation.systems.tenancy_rules import CHILDREN, TENANTS
from tests.simulation.systems.tenancy_world import NAMESPACE, Objects, Wanted, differs

REGISTRIES: Final = "tenantregistries.tenancy.ctrlruntime.dev"
TEMPLATES: Final = "tenanttemplates.tenancy.ctrlruntime.dev"
_FOREIGN: Final = frozenset({"kube-root-ca.crt"})


def lacks(sim: Simulation, world: Wanted) -> str:
    """Return what is not as users mean it; empty where all is."""
    return "\n".join(_lacks(sim, world))


def _lacks(sim: Simulation, world: Wanted) -> Iterator[str]:
    wanted = world.tenants()
    tenants = {each["metadata"]["name"]: each for each in sim.objects(TENANTS)}
    yield from (f"Tenant {name} is missing" for name in sorted({*wanted} - {*tenants}))
    yield from (f"Tenant {name} is not wanted" for name in sorted({*tenants} - {*wanted}))
    for name in sorted({*wanted} & {*tenants}):
        yield from (f"Tenant {name}: {each}" for each in _not_ready(tenants[name]))
    yield from _objects_lack(sim, wanted)
    yield from _counts_lack(sim, world)


def _objects_lack(sim: Simulation, tenants: dict[str, Objects]) -> Iterator[str]:
    wanted = {key: fields for objects in tenants.values() for key, fields in objects.items()}
    found = {
        (resource, each["metadata"]["name"]): each
        for resource in CHILDREN
        for each in sim.objects(resource)
        if each["metadata"]["namespace"] == NAMESPACE and each["metadata"]["name"] not in _FOREIGN
    }
    yield from (f"{'/'.join(key)} is missing" for key in sorted({*wanted} - {*found}))
    yield from (f"{'/'.join(key)} is not wanted" for key in sorted({*found} - {*wanted}))
    for key in sorted({*wanted} & {*found}):
        yield from (f"{'/'.join(key)}: {each}" for each in differs(wanted[key], found[key]))
    secrets = {each["metadata"]["name"]: each.get("data") or {} for each in sim.objects("secrets")}
    for name, data in secrets.items():
        drawn = secrets.get(f"{name.removesuffix('db')}generated")
        if name.endswith("-db") and drawn is not None and drawn != data:
            yield f"the Secret {name} has other values than were drawn"


def _counts_lack(sim: Simulation, world: Wanted) -> Iterator[str]:
    per_template = len(world.table.active())
    tenants = per_template * len(world.blueprints)
    for each in sim.objects(REGISTRIES):
        counts = {"desired": tenants, "ready": tenants, "failed": 0, "removalsPending": 0}
        yield from _status(each, counts, Ready="True", TenantsSynced="True", RowsValid="True")
        if world.shared:
            yield from _conditions(each, SlotsOwned="True")
    names = ("totalTenants", "readyTenants", "updatedTenants")
    for each in sim.objects(TEMPLATES):
        counts = {**dict.fromkeys(names, per_template), "failedTenants": 0}
        yield from _status(each, counts, Valid="True", Applied="True")
        rollout = (each.get("status") or {}).get("rollout") or {}
        if "rollout" in each["spec"] and rollout.get("phase") != "Complete":
            yield f"TenantTemplate {each['metadata']['name']}: its rollout is {rollout}"


def _not_ready(tenant: dict[str, Any]) -> Iterator[str]:
    metadata, status = tenant["metadata"], tenant.get("status") or {}
    if "deletionTimestamp" in metadata:
        yield "is going"
    if status.get("observedGeneration") != metadata["generation"]:
        yield f"its status is for generation {status.get('observedGeneration')}"
    yield from _conditions(tenant, Ready="True")


def _status(obj: dict[str, Any], counts: dict[str, int], **conditions: str) -> Iterator[str]:
    status = obj.get("status") or {}
    kind, name = obj["kind"], obj["metadata"]["name"]
    for field, count in counts.items():
        if status.get(field, 0) != count:
            yield f"{kind} {name}: {field} is {status.get(field, 0)}, not {count}"
    yield from (f"{kind} {name}: {each}" for each in _conditions(obj, **conditions))


def _conditions(obj: dict[str, Any], **wanted: str) -> Iterator[str]:
    found = {each["type"]: each for each in (obj.get("status") or {}).get("conditions") or ()}
    for name, status in wanted.items():
        condition = found.get(name) or {"status": "missing"}
        if condition["status"] != status:
            reason, message = condition.get("reason"), condition.get("message")
            yield f"{name} is {condition['status']} {reason}: {message}"
