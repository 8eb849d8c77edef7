"""The life of a small fleet, told the same way under every fault, and what is left of it.

A story makes two tenants, changes one row, takes the other away, and waits until nothing moves any
more. Its `Ending` holds everything that must be the same with and without faults.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
import yaml

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.envtest.proxy import LogEntry, Mark
from ctrlruntime.envtest.proxy.requests import WRITES
from tests.support.manager_harness import is_silent
from tests.tenancy.fleet import Fleet, Kind
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE_KIND,
    SAMPLES,
    SECRET,
    SERVICE,
    TenancyHarness,
    is_ready,
    mapping,
)

ACCOUNT = mapping("v1", "ServiceAccount")
CHILDREN = (ACCOUNT, CONFIG_MAP, SECRET, DEPLOYMENT, SERVICE)
OWN: tuple[Kind, ...] = (TenantRegistry, TenantTemplate, Tenant)
SILENCE = 1.2
"""Seconds without a request that count as idle for managers in processes of their own."""


def sample_lists(*, ordered: bool = True) -> dict[str, Any]:
    """The five-resource sample; without order, nothing waits for the Deployment."""
    spec: dict[str, Any] = yaml.safe_load((SAMPLES / "tenanttemplate.yaml").read_text())["spec"]
    spec.pop("registryId")
    container = spec["deployments"][0]["spec"]["spec"]["template"]["spec"]["containers"][0]
    container["image"] = "{{ .image }}"
    if not ordered:
        spec["services"][0].pop("dependIds")
        spec["deployments"][0]["waitForReady"] = False
    return spec


@dataclass(slots=True)
class Ending:
    """How a story ended."""

    objects: dict[str, Any]
    """What there is, by kind and name, without what differs from run to run."""
    reborn: list[str]
    """Objects of the tenant that stayed which are not those that were made at first."""
    writes: Counter[str] = field(repr=False)
    """Writes that the server carried out, by resource and name."""

    def surplus(self, calm: Ending) -> Counter[str]:
        """Writes of objects beyond those of a calm life; statuses and events are left aside."""
        more = (self.writes - calm.writes).items()
        return Counter({k: n for k, n in more if "/" not in k and not k.startswith("events")})

    @property
    def status_writes(self) -> int:
        """Writes of statuses of tenants."""
        return sum(n for key, n in self.writes.items() if key.startswith("tenants/status"))

    def writes_of(self, resource: str, name: str) -> int:
        """Writes of one object, its status included."""
        return self.writes[f"{resource} {name}"] + self.writes[f"{resource}/status {name}"]


@dataclass(slots=True)
class Story:
    """One fleet under one fault."""

    fleet: Fleet
    since: Mark
    lists: dict[str, Any]
    start: str
    """resourceVersion from before it began."""
    first_uids: dict[str, str] = field(default_factory=dict)
    timeout: float = 300.0
    """Seconds for each step. Fifty stories at once on a busy machine take more than a minute."""
    users: frozenset[str] = frozenset({"manager"})
    lost_after: float = math.inf
    """Seconds after which events that have not come are lost."""

    @classmethod
    async def make(cls, harness: TenancyHarness, lists: dict[str, Any] | None = None) -> Story:
        """A fleet in a namespace of its own, nothing in it yet."""
        since = harness.mark()
        fleet = await Fleet.make(harness)
        space = await harness.client.get(NAMESPACE_KIND, fleet.namespace)
        return cls(fleet, since, lists or sample_lists(), space["metadata"]["resourceVersion"])

    async def run_scenario(self) -> Ending:
        """From the first row to rest."""
        await self.begin()
        await self.change()
        return await self.end()

    async def go_on(self) -> Ending:
        """The rest of a story whose beginning was interrupted."""
        await self._begun()
        await self.change()
        return await self.end()

    async def begin(self) -> None:
        """Two tenants."""
        await self.plant()
        await self._begun()

    async def plant(self) -> None:
        """What two tenants come from."""
        self.fleet.rows("a", "b")
        await self.fleet.registry()
        await self.fleet.template(**self.lists)

    async def _begun(self) -> None:
        await self.fleet.ready("a-app", "b-app", timeout=self.timeout)
        self.first_uids = await self.uids()

    async def change(self) -> None:
        """One row changes, one goes."""
        fleet, harness = self.fleet, self.fleet.harness
        # One statement: between two, a manager that queries just then would find no row.
        fleet.sql("UPDATE tenants SET plan='gold', image='nginx:2', replicas=2 WHERE uid='a'")
        fleet.delete_row("b")
        await harness.eventually(self._changed, timeout=self.timeout)
        await harness.eventually(self._without_b, timeout=self.timeout)
        await fleet.ready("a-app", timeout=self.timeout)

    async def end(self) -> Ending:
        """Wait until nothing moves; what there is then.

        Its registry queries no more: of fifty that do every second one is always at work on a slow machine.
        """
        harness = self.fleet.harness
        await harness.eventually(self._counted, timeout=self.timeout)
        hourly = {"spec": {"source": {"syncInterval": "1h"}}}
        await harness.client.patch(
            TenantRegistry, "registry", hourly, namespace=self.fleet.namespace
        )
        await self.idle()
        uids = await self.uids()
        kept = {key: uid for key, uid in self.first_uids.items() if "/a-" in key}
        return Ending(
            await self.inventory(),
            [key for key, uid in kept.items() if uids.get(key) != uid],
            self.writes(),
        )

    async def idle(self) -> None:
        """Wait until the manager is idle: one in another process until it sends nothing for this namespace."""
        harness = self.fleet.harness
        if harness.manager is not None:
            await harness.idle(lost_after=self.lost_after)
            return
        async with asyncio.timeout(self.timeout):
            while not await is_silent(partial(self.log, harness.mark()), SILENCE):
                pass

    # -- what is looked at -----------------------------------------------------------------

    async def _changed(self) -> bool:
        found = await self.fleet.get(CONFIG_MAP, "a-settings")
        return bool(found) and found["data"]["plan"] == "gold"

    async def _without_b(self) -> bool:
        return not any("/b-" in key for key in await self.uids())

    async def _counted(self) -> bool:
        """Whether registry and template say what is so."""
        registry = await self.fleet.read(TenantRegistry, "registry")
        template = await self.fleet.read(TenantTemplate, "app")
        tenant = await self.fleet.find(Tenant, "a-app")
        counts = (registry.status.desired, registry.status.ready)
        of_template = (template.status.total_tenants, template.status.ready_tenants)
        return counts == of_template == (1, 1) and is_ready(tenant)

    async def objects(self) -> dict[str, dict[str, Any]]:
        """Everything of the kinds concerned, by kind and name."""
        found: dict[str, dict[str, Any]] = {}
        kinds = (*CHILDREN, *(kind.mapping() for kind in OWN))
        for kind in kinds:
            for item in await self.fleet.harness.client.list(kind, self.fleet.namespace):
                name = item["metadata"]["name"]
                if name not in {"default", "kube-root-ca.crt"}:
                    found[f"{kind.gvk.kind}/{name}"] = item
        return found

    async def uids(self) -> dict[str, str]:
        """Who they are."""
        return {key: item["metadata"]["uid"] for key, item in (await self.objects()).items()}

    async def versions(self, name: str) -> int:
        """How many versions of a tenant there have been: every write that changed nothing made none."""
        where = {"watch": "true", "resourceVersion": self.start, "timeoutSeconds": "1"}
        path = Tenant.mapping().path(namespace=self.fleet.namespace)
        lines = self.fleet.harness.client.transport.watch_lines(path, where, inactivity=10)
        events = [orjson.loads(line) async for line in lines]
        return sum(event["object"]["metadata"]["name"] == name for event in events)

    async def inventory(self) -> dict[str, Any]:
        """What they are, the namespace's name taken out."""
        found = {key: _essence(item) for key, item in (await self.objects()).items()}
        text = orjson.dumps(found, option=orjson.OPT_SORT_KEYS)
        told: dict[str, Any] = orjson.loads(text.replace(self.fleet.namespace.encode(), b"SPACE"))
        return told

    def log(self, since: Mark | None = None) -> list[LogEntry]:
        """The manager's requests about this namespace."""
        entries = self.fleet.harness.environment.proxy.log.entries(since or self.since)
        return [e for e in entries if e.user in self.users and e.namespace == self.fleet.namespace]

    def writes(self) -> Counter[str]:
        """Writes that the server carried out, by resource and name."""
        return Counter(
            f"{entry.resource.partition('.')[0]}{_subresource(entry.resource)} {entry.name}"
            for entry in self.log()
            if entry.verb in WRITES and entry.code and entry.code < 400
        )


def _subresource(resource: str) -> str:
    _, slash, name = resource.partition("/")
    return slash + name


def _essence(item: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on how an object came about."""
    status = item.get("status") or {}
    spec = item.get("spec")
    if isinstance(spec, dict):
        spec = {key: value for key, value in spec.items() if not key.startswith("clusterIP")}
    conditions = status.get("conditions") or ()
    return {
        "labels": item["metadata"].get("labels"),
        "finalizers": item["metadata"].get("finalizers"),
        "owners": [o["name"] for o in item["metadata"].get("ownerReferences") or ()],
        "going": "deletionTimestamp" in item["metadata"],
        "spec": spec,
        "data": item.get("data"),
        "applied": status.get("appliedResources"),
        "conditions": {c["type"]: (c["status"], c["reason"], c["message"]) for c in conditions},
    }
