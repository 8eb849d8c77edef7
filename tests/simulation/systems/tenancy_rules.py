"""What must hold of the tenancy system, judged by what users meant: the product is never consulted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from tests.simulation.systems.table import active
from tests.simulation.systems.tenancy_world import NAMESPACE, Key, World, differs

TENANTS: Final = "tenants.tenancy.ctrlruntime.dev"
REGISTRIES: Final = "tenantregistries.tenancy.ctrlruntime.dev"
TEMPLATES: Final = "tenanttemplates.tenancy.ctrlruntime.dev"
CHILDREN: Final = ("configmaps", "deployments.apps", "secrets", "jobs.batch")
_FOREIGN: Final = frozenset({"kube-root-ca.crt"})


@dataclass(slots=True)
class Rules:
    """A witness: nothing goes that was to stay. At the end: everything is there that was meant."""

    sim: Simulation
    world: World

    # -- what goes -------------------------------------------------------------------------------------

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Take a change of an object, while it is made."""
        if (
            call is None
            or call.process is None
            or call.request.verb != "delete"
            or not _goes(change)
        ):
            return
        name = change.record.name
        if bucket.resource == TENANTS:
            self._tenant_goes(call, name)
        elif bucket.resource in CHILDREN:
            self._object_goes(call, (bucket.resource, name))

    def answered(self, call: Call) -> None:
        """Leave it: what counts is what changes."""

    def _tenant_goes(self, call: Call, name: str) -> None:
        uid, _, template = name.rpartition("-")
        if template not in self.world.blueprints:
            return
        answer = self.world.table.answers.get(call.process.root.identity) if call.process else None
        if answer is None or uid in active(answer):
            had = "no answer of the table yet" if answer is None else "the row in its last answer"
            self.sim.breaks("tenant goes", f"{call.who} deletes the Tenant {name}, and has {had}")

    def _object_goes(self, call: Call, key: Key) -> None:
        uid, template, _ = key[1].split("-", 2)
        if key in self.world.unwanted or template not in self.world.blueprints:
            return
        tenants = {each["metadata"]["name"]: each["metadata"] for each in self.sim.objects(TENANTS)}
        if "deletionTimestamp" not in tenants.get(f"{uid}-{template}", {"deletionTimestamp": ""}):
            what = f"{call.who} deletes {key[0]}/{key[1]}, and its Tenant stays"
            self.sim.breaks("object goes", what)

    # -- the end ---------------------------------------------------------------------------------------

    def lacks(self) -> str:
        """Return what is not as users mean it; empty where all is."""
        return "\n".join(self._lacks())

    def _lacks(self) -> Iterator[str]:
        wanted = self.world.tenants()
        tenants = {each["metadata"]["name"]: each for each in self.sim.objects(TENANTS)}
        yield from (f"Tenant {name} is missing" for name in sorted({*wanted} - {*tenants}))
        yield from (f"Tenant {name} is not wanted" for name in sorted({*tenants} - {*wanted}))
        for name in sorted({*wanted} & {*tenants}):
            yield from (f"Tenant {name}: {each}" for each in _not_ready(tenants[name]))
        yield from self._objects_lack(wanted)
        yield from self._counts_lack(len(wanted))

    def _objects_lack(self, tenants: dict[str, dict[Key, dict[str, Any]]]) -> Iterator[str]:
        wanted = {key: fields for objects in tenants.values() for key, fields in objects.items()}
        found = {
            (resource, each["metadata"]["name"]): each
            for resource in CHILDREN
            for each in self.sim.objects(resource)
            if each["metadata"]["namespace"] == NAMESPACE
            and each["metadata"]["name"] not in _FOREIGN
        }
        yield from (f"{'/'.join(key)} is missing" for key in sorted({*wanted} - {*found}))
        yield from (f"{'/'.join(key)} is not wanted" for key in sorted({*found} - {*wanted}))
        for key in sorted({*wanted} & {*found}):
            yield from (f"{'/'.join(key)}: {each}" for each in differs(wanted[key], found[key]))

    def _counts_lack(self, tenants: int) -> Iterator[str]:
        for each in self.sim.objects(REGISTRIES):
            counts = {"desired": tenants, "ready": tenants, "failed": 0}
            yield from _status(each, counts, Ready="True", TenantsSynced="True")
        per_template = len(self.world.table.active())
        for each in self.sim.objects(TEMPLATES):
            names = ("totalTenants", "readyTenants", "updatedTenants")
            counts = {**dict.fromkeys(names, per_template), "failedTenants": 0}
            yield from _status(each, counts, Valid="True", Applied="True")


def _goes(change: Change) -> bool:
    before = change.previous.obj if change.previous is not None else {"metadata": {}}
    is_going = "deletionTimestamp" in change.record.obj["metadata"] or change.type == "DELETED"
    return is_going and "deletionTimestamp" not in before["metadata"]


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
            yield (
                f"{name} is {condition['status']} {condition.get('reason')}:"
                f" {condition.get('message')}"
            )
