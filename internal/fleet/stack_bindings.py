"""The rights of a stack on the hub: bindings of two fixed ClusterRoles to its account. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from apis.fleet.labels import PARALLEL_PREFIX
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import Desired
from internal.fleet.labels import ACCOUNT, SELECTED, STACK
from internal.fleet.targets import TRUE

RBAC: Final = "rbac.authorization.k8s.io"
CLUSTER_ROLE_BINDING: Final = BUILTIN[GroupVersionKind(RBAC, "v1", "ClusterRoleBinding")]
ROLE_BINDING: Final = BUILTIN[GroupVersionKind(RBAC, "v1", "RoleBinding")]
BINDINGS: Final = (CLUSTER_ROLE_BINDING, ROLE_BINDING)
READER: Final = "ctrlruntime-fleet-stack-reader"
"""ClusterRole of every stack in all namespaces: what is watched cannot be narrowed by label."""
WRITER: Final = "ctrlruntime-fleet-stack-writer"
"""ClusterRole of a stack in each of its parallel namespaces."""
STACK_ROLES: Final = (READER, WRITER)
ORDINAL: Final = 1
"""After the account, before the workloads that use it."""


def build_bindings(target: str, namespaces: Iterable[str]) -> list[Desired]:
    """Return what binds the account of a target namespace; `namespaces` are its parallel namespaces."""
    reader = _binding(CLUSTER_ROLE_BINDING, target, READER)
    writers = [_binding(ROLE_BINDING, target, WRITER, namespace=each) for each in namespaces]
    return [reader, *writers]


def binding_name(target: str) -> str:
    """Return the name of all bindings of a target namespace; no two namespaces share one."""
    return f"fleet-stack-{target}"


def target_of(entry: Entry) -> list[str]:
    """Return the target namespace of a binding; an index, and what its events request."""
    name = entry.labels.get(STACK)
    return [name] if name else []


def stacks_of(entry: Entry) -> list[str]:
    """Return the target namespaces whose stacks may write in a namespace of the hub."""
    return stacks_in(entry.labels)


def stacks_in(labels: Mapping[str, str]) -> list[str]:
    """Return the target namespaces that labels of a namespace grant."""
    return [
        label.removeprefix(PARALLEL_PREFIX)
        for label, value in labels.items()
        if label.startswith(PARALLEL_PREFIX) and value == TRUE
    ]


def _binding(mapping: RESTMapping, target: str, role: str, **place: str) -> Desired:
    metadata: dict[str, Any] = {
        "name": binding_name(target),
        **place,
        "labels": {**SELECTED, STACK: target},
    }
    manifest: Manifest = {
        "apiVersion": mapping.gvk.api_version,
        "kind": mapping.gvk.kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": target}],
    }
    return Desired(mapping=mapping, manifest=manifest, ordinal=ORDINAL, reference=False)
