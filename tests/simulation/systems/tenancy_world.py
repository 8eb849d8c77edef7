"""What users of the tenancy system mean: the rows, the templates, and the objects that there should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from apis.tenancy import TenantRegistry, TenantTemplate
from tests.simulation.systems.table import TYPE, Table, Values, staying
from tests.tenancy.entries import deployment, manifest

NAMESPACE: Final = "default"
REGISTRY: Final = "registry"
UIDS: Final = ("a", "b", "c", "d", "e", "f")
Key = tuple[str, str]
"""Resource, as `deployments.apps`, and name."""
Objects = dict[Key, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The content of one template."""

    name: str
    mark: int = 1
    """A number in the content: a new one is new content."""
    bad: bool = False
    """Whether its Deployments never start."""
    extra: bool = False
    """Whether there is one object more."""
    generates: bool = False
    hooks: bool = False
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `spec`."""

    def manifest(self) -> dict[str, Any]:
        """Return the template."""
        spec: dict[str, Any] = {"registryId": REGISTRY, **self.spec}
        data = {"plan": "{{ .planId }}", "mark": str(self.mark)}
        entries = [
            manifest("settings", "v1", "ConfigMap", body={"data": data}, conflictPolicy="Force")
        ]
        if self.extra:
            entries.append(manifest("extra", "v1", "ConfigMap"))
        image = f"bad:{self.mark}" if self.bad else "{{ .image }}"
        workload = deployment("app", image, dependIds=["settings"], timeoutSeconds=30)
        secret = manifest(
            "db", "v1", "Secret", body={"stringData": {"password": "{{ .password }}"}}
        )
        spec["configMaps"], spec["deployments"] = entries, [workload]
        if self.generates:
            spec |= {"generate": {"password": {"length": 16}}, "secrets": [secret]}
        if self.hooks:
            spec["hooks"] = [_hook("init", "BeforeCreate"), _hook("bye", "BeforeDelete")]
        for entry in (*entries, workload, secret, *spec.get("hooks", ())):
            entry["nameTemplate"] = "{{ .uid }}-" + f"{self.name}-{entry['id']}"
        return {
            "apiVersion": TenantTemplate.gvk().api_version,
            "kind": "TenantTemplate",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": spec,
        }

    def objects(self, uid: str, row: Values) -> Objects:
        """Return what there should be for a row: by resource and name, the fields that count."""
        begin = f"{uid}-{self.name}-"
        image = f"bad:{self.mark}" if self.bad else row["image"]
        pod = {"containers": [{"name": "main", "image": image}]}
        found: Objects = {
            ("configmaps", f"{begin}settings"): {
                "data": {"plan": row["plan"], "mark": str(self.mark)}
            },
            ("deployments.apps", f"{begin}app"): {"spec": {"template": {"spec": pod}}},
        }
        if self.extra:
            found["configmaps", f"{begin}extra"] = {}
        if self.generates:
            found["secrets", f"{begin}db"] = {}
            found["secrets", f"{begin}generated"] = {}
        if self.hooks:
            found["jobs.batch", f"{begin}init"] = {"status": {"succeeded": 1}}
        return found


def _hook(name: str, moment: str) -> dict[str, Any]:
    container = {"name": "main", "image": "tool:1", "args": ["{{ .uid }}"]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pod}}
    return {"id": name, "moment": moment, "spec": job}


@dataclass(slots=True)
class Wanted:
    """What there is by the will of users, now and before."""

    table: Table
    shared: bool = False
    """Whether several managers divide the tenants."""
    windows: bool = False
    """Whether the registry has maintenance windows."""
    guard: dict[str, Any] = field(default_factory=dict)
    blueprints: dict[str, Blueprint] = field(default_factory=dict)
    unwanted: set[Key] = field(default_factory=set)
    """Objects that a template dropped once, or got in a rollout that may go back: whoever is behind may delete them."""
    used: set[str] = field(default_factory=set)
    """Uids that ever were in the table."""
    heirs: set[str] = field(default_factory=set)
    """Uids before and after a renaming: a replica that is behind shows them the other way round."""
    renamed: dict[str, str] = field(default_factory=dict)
    """New uids by those before."""
    approved: set[str] = field(default_factory=set)
    """Tenants that users let go."""

    def change(self, name: str, **changes: object) -> Blueprint:
        """Give a template other content."""
        before = self.blueprints[name]
        after = replace(before, **changes)  # type: ignore[arg-type]
        self.blueprints[name] = after
        goes_back = "onHalt" in after.spec.get("rollout", {})
        for uid in UIDS:
            former, new = ({*each.objects(uid, row(uid))} for each in (before, after))
            self.unwanted |= former ^ new if goes_back else former - new
        return after

    def tenants(self) -> dict[str, Objects]:
        """Return the objects that there should be, by the name of the tenant."""
        return {
            f"{uid}-{blueprint.name}": blueprint.objects(uid, row)
            for uid, row in self.table.active().items()
            for blueprint in self.blueprints.values()
        }

    def may_go(self, tenant: str) -> bool:
        """Whether users mean a tenant to go: its row or its template is gone."""
        uid, _, template = tenant.rpartition("-")
        return uid not in staying(self.table.rows) or template not in self.blueprints


def registry(interval: str, **spec: object) -> dict[str, Any]:
    """Return the registry of the table, which it reads in an interval."""
    return {
        "apiVersion": TenantRegistry.gvk().api_version,
        "kind": "TenantRegistry",
        "metadata": {"name": REGISTRY, "namespace": NAMESPACE},
        "spec": {
            "source": {"type": TYPE, TYPE: {"name": "rows"}, "syncInterval": interval},
            "valueMappings": {"uid": "uid", "hostOrUrl": "url", "activate": "active"},
            "extraValueMappings": {"planId": "plan", "image": "image"},
            **spec,
        },
    }


def row(uid: str, **values: str) -> Values:
    """Return an active row."""
    return {
        "uid": uid,
        "url": f"https://{uid}.example.com",
        "active": "1",
        "plan": "basic",
        "image": "nginx:1",
        **values,
    }


def differs(wanted: object, found: object, at: str = "") -> Iterator[str]:
    """Return where what is found is not as it is wanted; fields that are not wanted do not count."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name, value in wanted.items():
            yield from differs(value, found.get(name), f"{at}.{name}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, value in enumerate(wanted):
            yield from differs(value, found[number], f"{at}[{number}]")
    elif wanted != found:
        yield f"{at} is {found!r}, not {wanted!r}"
