"""ResourceQuotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.api.name_rules import qualified_name
from ctrlruntime.envtest.schema.quantity import value_of
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value
from ctrlruntime.envtest.server.kinds.declare import builtin_kind

_Object = dict[str, Any]
_QUOTAS: Final = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_HUGE_PAGES: Final = ("hugepages-", "requests.hugepages-")


def _check(spec: _Object, prefix: str) -> Iterator[FieldError]:
    for name, value in (spec.get("hard") or {}).items():
        path = f"{prefix}hard[{name}]"
        for text in qualified_name(name):
            yield bad_value(path, name, text)
        if "/" not in name and name not in _QUOTAS and not name.startswith(_HUGE_PAGES):
            yield bad_value(path, name, "must be a standard resource for quota")
        if value_of(value) < 0:
            yield bad_value(path, value, "must be greater than or equal to 0")


RESOURCE_QUOTA: Final = builtin_kind(
    "",
    "ResourceQuota",
    "resourcequotas",
    "quota",
    subresources=("status",),
    defaults=Defaults({"spec": {}}, {"spec": Defaults()}),
    spec_rules=Rules(checks=(_check,)),
)
