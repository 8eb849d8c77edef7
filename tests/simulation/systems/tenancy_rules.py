"""What must never happen in the tenancy system, judged by what users meant: the product is never consulted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from tests.simulation.systems.table import staying
from tests.simulation.systems.tenancy_world import Wanted

TENANTS: Final = "tenants.tenancy.ctrlruntime.dev"
CHILDREN: Final = ("configmaps", "deployments.apps", "secrets", "jobs.batch")
_DEADLINE: Final = 60.0
"""Seconds that a rollout gives a tenant to become ready."""


@dataclass(slots=True)
class Rules:
    """A witness: nothing goes that was to stay, and nothing happens out of its order."""

    sim: Simulation
    world: Wanted
    _uids: set[str] = field(default_factory=set)
    """Uids that had tenants."""
    _removed: set[str] = field(default_factory=set)
    """Uids that the guard let go without an approval."""
    _ran: Counter[str] = field(default_factory=Counter)
    _rolling: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Tenants that change: to which content, and since when."""
    _got_bad: dict[str, set[str]] = field(default_factory=dict)
    """Tenants that were ready and got content that cannot be, by that content."""

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Take a change of an object, while it is made."""
        if bucket.resource == TENANTS and goes(change):
            self._forget(change.record.name)
        if call is None or call.process is None or call.who == "kubelets":
            return
        is_deleted = call.request.verb == "delete"
        if bucket.resource == TENANTS:
            self._uids.add(split(change.record.name)[0])
            if is_deleted and goes(change):
                self._tenant_goes(call, change.record.name)
            elif change.type == "MODIFIED":
                self._tenant_changes(call, change)
        elif bucket.resource in CHILDREN and change.record.name.count("-") == 2:
            if is_deleted and goes(change):
                self._object_goes(call, bucket, change.record.name)
            elif change.type == "ADDED":
                self._object_comes(call, bucket, change)
            elif bucket.resource == "secrets":
                self._secret_changes(call, change)

    def answered(self, call: Call) -> None:
        """Leave it: what counts is what changes."""

    # -- tenants ---------------------------------------------------------------------------------------

    def _forget(self, name: str) -> None:
        """A tenant that goes takes part in no rollout any more; a failed one halts none."""
        self._rolling.pop(name, None)
        for got in self._got_bad.values():
            if name in got:
                got.clear()

    def _tenant_goes(self, call: Call, name: str) -> None:
        uid, template = split(name)
        if template not in self.world.blueprints or call.process is None:
            return
        answer = self.world.table.answers.get(call.process.root.identity)
        if answer is None or uid in staying(answer):
            had = "no answer of the table yet" if answer is None else "the row in its last answer"
            self.sim.breaks("tenant goes", f"{call.who} deletes the Tenant {name}, and has {had}")
            return
        if name in self.world.approved:
            return
        if not answer:
            self.sim.breaks("guard", f"{call.who} deletes the Tenant {name} for an empty answer")
        self._removed.add(uid)
        guard = self.world.guard
        share = guard["maxDeletePercent"] * len(self._uids) // 100
        limit = max(guard["alwaysAllowedRows"], share)
        if guard["window"] != "0s" and len(self._removed) > limit:
            what = f"{len(self._removed)} of {len(self._uids)} rows went, {limit} may"
            self.sim.breaks("guard", f"{call.who} deletes the Tenant {name}: {what}")
        self._heir_is_ready(call, uid, template, answer)

    def _heir_is_ready(self, call: Call, uid: str, template: str, answer: dict[str, Any]) -> None:
        """A row that is renamed keeps its tenants until those of the new uid are ready."""
        heir = self.world.renamed.get(uid)
        if heir is None or heir not in self.world.table.active() or heir not in staying(answer):
            return
        tenant = self._tenant(f"{heir}-{template}")
        if tenant is None or not is_ready(tenant):
            what = f"{call.who} deletes {uid}-{template}, and {heir}-{template} is not ready"
            self.sim.breaks("rename", what)

    def _tenant(self, name: str) -> dict[str, Any] | None:
        found = {each["metadata"]["name"]: each for each in self.sim.objects(TENANTS)}
        return found.get(name)

    def _tenant_changes(self, call: Call, change: Change) -> None:
        """Within a rollout only so many change at once that were ready."""
        name, tenant = change.record.name, change.record.obj
        if is_ready(tenant):
            self._rolling.pop(name, None)
        before = change.previous.obj if change.previous is not None else tenant
        new, former = mark(tenant), mark(before)
        blueprint = self.world.blueprints.get(split(name)[1])
        if new == former or blueprint is None or not is_ready(before):
            return
        rollout = blueprint.spec.get("rollout")
        if rollout is None:
            return
        now, skew = call.at, rollout["maxSkew"]
        others = [
            other
            for other, (to, since) in self._rolling.items()
            if to == new and split(other)[1] == blueprint.name and now < since + _DEADLINE - 5
        ]
        self._rolling[name] = (new, now)
        if len(others) >= skew:
            what = f"{call.who} changes {name} to content {new}, and {others} change"
            self.sim.breaks("rollout", f"{what}; {skew} may at once")
        if _is_bad(tenant) and "haltOnFailures" in rollout:
            got = self._got_bad.setdefault(f"{blueprint.name} {new}", set())
            got.add(name)
            if len(got) > skew:
                what = f"{call.who} changes {name} to content {new}, the {len(got)}th of {got}"
                self.sim.breaks("halt", f"{what}; a failure of one halts, {skew} may at once")

    # -- their objects -----------------------------------------------------------------------------------

    def _object_goes(self, call: Call, bucket: Bucket, name: str) -> None:
        uid, template, entry = name.split("-")
        blueprint = self.world.blueprints.get(template)
        if (bucket.resource, name) in self.world.unwanted or blueprint is None:
            return
        tenant = self._tenant(f"{uid}-{template}")
        if tenant is not None and "deletionTimestamp" not in tenant["metadata"]:
            what = f"{call.who} deletes {bucket.resource}/{name}, and its Tenant stays"
            self.sim.breaks("object goes", what)
        if blueprint.hooks and bucket.resource != "jobs.batch" and entry != "generated":
            self._has_run(call, f"{uid}-{template}-bye", f"deletes {bucket.resource}/{name}")

    def _object_comes(self, call: Call, bucket: Bucket, change: Change) -> None:
        uid, template, entry = change.record.name.split("-")
        blueprint = self.world.blueprints.get(template)
        if bucket.resource == "jobs.batch":
            owners = change.record.obj["metadata"].get("ownerReferences") or [{"uid": ""}]
            run = f"{change.record.name} of {owners[0]['uid']}"
            self._ran[run] += 1
            if self._ran[run] > 1:
                self.sim.breaks("hook", f"{call.who} runs {run} again")
        elif blueprint is not None and blueprint.hooks and entry != "generated":
            what = f"makes {bucket.resource}/{change.record.name}"
            self._has_run(call, f"{uid}-{template}-init", what)

    def _has_run(self, call: Call, job: str, what: str) -> None:
        jobs = {each["metadata"]["name"]: each for each in self.sim.objects("jobs.batch")}
        if not (jobs.get(job, {}).get("status") or {}).get("succeeded"):
            self.sim.breaks("hook", f"{call.who} {what}, and the hook {job} has not run")

    def _secret_changes(self, call: Call, change: Change) -> None:
        if change.record.name.partition("-")[0] in self.world.heirs:
            return  # it takes the values of the tenant over whose place it takes
        before = change.previous.obj if change.previous is not None else change.record.obj
        if before.get("data") != change.record.obj.get("data"):
            self.sim.breaks("drawn again", f"{call.who} changes the values of {change.record.name}")


def split(tenant: str) -> tuple[str, str]:
    """Return the uid and the template of a tenant."""
    uid, _, template = tenant.rpartition("-")
    return uid, template


def goes(change: Change) -> bool:
    """Whether an object is deleted, or is to go from now on."""
    before = change.previous.obj if change.previous is not None else {"metadata": {}}
    is_going = "deletionTimestamp" in change.record.obj["metadata"] or change.type == "DELETED"
    return is_going and "deletionTimestamp" not in before["metadata"]


def is_ready(tenant: dict[str, Any]) -> bool:
    """Whether it is ready for its present spec."""
    status = tenant.get("status") or {}
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in status.get("conditions") or ()
    )
    return ready and status.get("observedGeneration") == tenant["metadata"]["generation"]


def mark(tenant: dict[str, Any]) -> str:
    """Return the number of its content."""
    entries = tenant["spec"].get("configMaps") or [{"spec": {"data": {"mark": "0"}}}]
    return str(entries[0]["spec"]["data"]["mark"])


def _is_bad(tenant: dict[str, Any]) -> bool:
    workloads = tenant["spec"].get("deployments") or ()
    return any("bad:" in str(each["spec"]) for each in workloads)
