"""What the operators before this one call things: kinds, labels, their field manager and their Lease. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apis.tenancy import TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import GroupVersionKind, Manifest, RESTMapping


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerOperator:
    """One operator, by the names that it leaves on objects."""

    name: str
    registry: RESTMapping
    template: RESTMapping
    tenant: RESTMapping
    prefix: str
    """Of its labels and annotations."""
    word: str
    """What its labels call a tenant: `<prefix>/<word>` and `<prefix>/<word>-namespace`."""
    registry_field: str
    """The field of a template that names its registry."""
    field_manager: str
    lease: str

    @property
    def label(self) -> str:
        """The label with a tenant's name, on objects without an owner reference."""
        return f"{self.prefix}/{self.word}"

    @property
    def namespace_label(self) -> str:
        """The label with a tenant's namespace."""
        return f"{self.prefix}/{self.word}-namespace"


def _mapping(group: str, kind: str) -> RESTMapping:
    plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
    return RESTMapping(GroupVersionKind(group, "v1", kind), plural, namespaced=True)


FORMERS: Final = {
    each.name: each
    for each in (
        FormerOperator(
            name="lynq",
            registry=_mapping("operator.lynq.sh", "LynqHub"),
            template=_mapping("operator.lynq.sh", "LynqForm"),
            tenant=_mapping("operator.lynq.sh", "LynqNode"),
            prefix="lynq.sh",
            word="node",
            registry_field="hubId",
            field_manager="lynq-operator",
            lease="f2130106.lynq.sh",
        ),
        FormerOperator(
            name="tenant-operator",
            registry=_mapping("operator.kubernetes-tenants.org", "TenantRegistry"),
            template=_mapping("operator.kubernetes-tenants.org", "TenantTemplate"),
            tenant=_mapping("operator.kubernetes-tenants.org", "Tenant"),
            prefix="kubernetes-tenants.org",
            word="tenant",
            registry_field="registryId",
            field_manager="tenant-operator",
            lease="f2130106.kubernetes-tenants.org",
        ),
    )
}
"""By name."""


def translated(former: FormerOperator, manifest: Mapping[str, Any]) -> Manifest:
    """Return a registry or a template as an object of this product; names, ids and bodies stay as they are."""
    spec = copy.deepcopy(dict(manifest["spec"]))
    kind: type[TenantRegistry | TenantTemplate] = TenantRegistry
    if manifest["kind"] == former.template.gvk.kind:
        kind = TenantTemplate
        spec["registryId"] = spec.pop(former.registry_field)
        if not (spec.get("rollout") or {}).get("maxSkew"):
            spec.pop("rollout", None)  # 0 was no limit, and its deadline was never read
    metadata = manifest["metadata"]
    return {
        "apiVersion": kind.gvk().api_version,
        "kind": kind.gvk().kind,
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": spec,
    }
