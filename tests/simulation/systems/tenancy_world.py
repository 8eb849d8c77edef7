"""What users of the tenancy system mean: the rows, the templates, and the objects that there should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from apis.tenancy import TenantRegistry, TenantTemplate
from tests.simulation.systems.table import TYPE, Table, Values
from tests.tenancy.entries import deployment, manifest

NAMESPACE: Final = "default"
REGISTRY: Final = "registry"
UIDS: Final = ("a", "b", "c", "d", "e", "f")
Key = tuple[str, str]
"""Resource, as `deployments.apps`, and name."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The content of one template."""

    name: str
    mark: int = 1
    """A number in the content: a new one is new content."""
    extra: bool = False
    """Whether there is one object more."""

    def manifest(self) -> dict[str, Any]:
        """Return the template."""
        data = {"plan": "{{ .planId }}", "mark": str(self.mark)}
        entries = [
            manifest("settings", "v1", "ConfigMap", body={"data": data}, conflictPolicy="Force"),
            *([manifest("extra", "v1", "ConfigMap")] if self.extra else []),
        ]
        workload = deployment("app", "{{ .image }}", dependIds=["settings"])
        for entry in (*entries, workload):
            entry["nameTemplate"] = "{{ .uid }}-" + f"{self.name}-{entry['id']}"
        return {
            "apiVersion": TenantTemplate.gvk().api_version,
            "kind": "TenantTemplate",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {"registryId": REGISTRY, "configMaps": entries, "deployments": [workload]},
        }

    def objects(self, uid: str, row: Values) -> dict[Key, dict[str, Any]]:
        """Return what there should be for a row: by resource and name, the fields that count."""
        begin = f"{uid}-{self.name}-"
        image = {"containers": [{"name": "main", "image": row["image"]}]}
        found: dict[Key, dict[str, Any]] = {
            ("configmaps", f"{begin}settings"): {
                "data": {"plan": row["plan"], "mark": str(self.mark)}
            },
            ("deployments.apps", f"{begin}app"): {"spec": {"template": {"spec": image}}},
        }
        if self.extra:
            found["configmaps", f"{begin}extra"] = {}
        return found


@dataclass(slots=True)
class World:
    """What there is by the will of users, now and before."""

    table: Table
    blueprints: dict[str, Blueprint] = field(default_factory=dict)
    unwanted: set[Key] = field(default_factory=set)
    """Objects that a template dropped once: whoever is behind may delete them."""

    def change(self, name: str, **changes: object) -> Blueprint:
        """Give a template other content."""
        before = self.blueprints[name]
        after = self.blueprints[name] = replace(before, **changes)  # type: ignore[arg-type]
        for uid in UIDS:
            self.unwanted |= {*before.objects(uid, row(uid))} - {*after.objects(uid, row(uid))}
        return after

    def tenants(self) -> dict[str, dict[Key, dict[str, Any]]]:
        """Return the objects that there should be, by the name of the tenant."""
        return {
            f"{uid}-{blueprint.name}": blueprint.objects(uid, row)
            for uid, row in self.table.active().items()
            for blueprint in self.blueprints.values()
        }


def registry(**spec: object) -> dict[str, Any]:
    """Return the registry of the table."""
    return {
        "apiVersion": TenantRegistry.gvk().api_version,
        "kind": "TenantRegistry",
        "metadata": {"name": REGISTRY, "namespace": NAMESPACE},
        "spec": {
            "source": {"type": TYPE, TYPE: {"name": "rows"}, "syncInterval": "1s"},
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
