"""What users of scale mode mean: which hub works for which data plane, and which tenants are where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.envtest.simulation.cluster import Cluster
from tests.fleet.stack import harness

SHOP: Final = "shop"
"""The namespace of all tenants, on each data plane and on the hubs."""
Manifest = dict[str, Any]
Key = tuple[str, str]
"""Resource, as `deployments.apps`, and name."""


@dataclass(slots=True)
class Hub:
    """A cluster with an operator."""

    name: str
    cluster: Cluster
    labelled: dict[str, bool] = field(default_factory=dict)
    """By data plane: whether its target namespace has the label now."""
    since: dict[str, float] = field(default_factory=dict)
    """By data plane: when that was changed last."""


@dataclass(slots=True)
class Plane:
    """A data plane. Its target namespace has its name on each hub."""

    name: str
    cluster: Cluster
    id: str
    hub: str
    """The hub that is to work for it."""
    away: bool = False
    """Whether it is off the network."""
    broken: bool = False
    """Whether its Secret has no kubeconfig of it."""
    mixed_up: bool = False
    """Whether its Secret has the kubeconfig of another data plane."""
    hubs: set[str] = field(default_factory=set)
    """Those that worked for it."""
    revoked: bool = False
    """Whether the stack may not write in the namespace of the tenants."""


@dataclass(slots=True)
class Wanted:
    """A tenant."""

    name: str
    plane: str
    """The data plane that it is on, or goes to."""
    marks: list[int] = field(default_factory=lambda: [1])
    """The numbers in its content, one after the other; the last one is meant."""
    former: set[str] = field(default_factory=set)
    """Data planes that it was on before."""
    moving: bool = False

    def manifest(self) -> Manifest:
        """Return the Tenant."""
        mark, name = self.marks[-1], self.name
        app = harness.deployment(f"{name}-app", config=f"{name}-conf")
        app["spec"]["spec"]["template"]["spec"]["containers"][0]["image"] = f"nginx:{mark}"
        app["dependIds"] = [f"{name}-conf"]
        conf, note = (
            harness.config_map(f"{name}-{kind}", mark=str(mark)) for kind in ("conf", "note")
        )
        return harness.tenant(app, conf, note, name=name, namespace=SHOP)

    @property
    def on_hub(self) -> dict[Key, str]:
        """The objects that there are of it on the hub, with the mark of each."""
        mark = str(self.marks[-1])
        return {
            ("deployments.apps", f"{self.name}-app"): mark,
            ("configmaps", f"{self.name}-conf"): mark,
        }


@dataclass(slots=True)
class Meant:
    """All that users of scale mode mean."""

    hubs: dict[str, Hub] = field(default_factory=dict)
    planes: dict[str, Plane] = field(default_factory=dict)
    tenants: dict[str, Wanted] = field(default_factory=dict)
    leaving: dict[str, Wanted] = field(default_factory=dict)
    """Tenants that were deleted. No name is used again."""
    memory: str = "256Mi"
    """What the controllers of all stacks request."""
    by_hand: set[Key] = field(default_factory=set)
    """Objects that a person deleted on a hub."""

    def stays(self, plane: Plane) -> bool:
        """Whether no tenant ever came from or went to a data plane."""
        tenants = (*self.tenants.values(), *self.leaving.values())
        return not any(plane.name in (each.plane, *each.former) for each in tenants if each.former)

    def tenant(self, name: str) -> Wanted | None:
        """Return a tenant that is or was."""
        return self.tenants.get(name) or self.leaving.get(name)

    def plane_of(self, identity: str) -> Plane | None:
        """Return the data plane of an id."""
        return next((each for each in self.planes.values() if each.id == identity), None)


def mark_of(resource: str, obj: Manifest) -> str:
    """Return the number in the content of an object of a tenant."""
    if resource == "configmaps":
        return str((obj.get("data") or {}).get("mark"))
    image = str(obj["spec"]["template"]["spec"]["containers"][0]["image"])
    return image.removeprefix("nginx:")
