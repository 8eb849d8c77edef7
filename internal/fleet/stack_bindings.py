"""The rights of a stack on the hub: bindings of fixed ClusterRoles to its account. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from apis.fleet.labels import PARALLEL_PREFIX
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, RESTMapping
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
SECRET_READER: Final = "ctrlruntime-fleet-stack-secret-reader"  # noqa: S105 - a name
"""ClusterRole of a stack in its parallel namespaces and its own, or, by an option, in all namespaces."""
RECORDER: Final = "ctrlruntime-fleet-stack-recorder"
"""ClusterRole of a stack in its own namespace: the record of what its sweep of orphans let go."""
STACK_ROLES: Final = (READER, WRITER, SECRET_READER, RECORDER)
ORDINAL: Final = 1
"""After the account, before the workloads that use it."""


def build_bindings(
    target: str, namespaces: Iterable[str], *, restrict_secrets: bool = True
) -> list[Desired]:
    """Return what binds the account of a target namespace; `namespaces` are its parallel namespaces.

    A binding's role cannot be changed, so Secrets have a role and bindings of their own.
    """
    parallel = list(namespaces)
    name, secrets, records = binding_names(target)
    recorder = _binding(ROLE_BINDING, target, RECORDER, name=records, namespace=target)
    reader = _binding(CLUSTER_ROLE_BINDING, target, READER, name=name)
    writers = [
        _binding(ROLE_BINDING, target, WRITER, name=name, namespace=each) for each in parallel
    ]
    if not restrict_secrets:
        everywhere = _binding(CLUSTER_ROLE_BINDING, target, SECRET_READER, name=secrets)
        return [reader, everywhere, recorder, *writers]
    places = sorted({target, *parallel})
    readers = [
        _binding(ROLE_BINDING, target, SECRET_READER, name=secrets, namespace=each)
        for each in places
    ]
    return [reader, recorder, *readers, *writers]


def binding_names(target: str) -> tuple[str, str, str]:
    """Return the names of all bindings of a target namespace: of most rights, of reading Secrets, and of its record.

    No two namespaces share one.
    """
    return f"fleet-stack-{target}", f"fleet-secrets-{target}", f"fleet-record-{target}"


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


def _binding(mapping: RESTMapping, target: str, role: str, **identity: str) -> Desired:
    metadata: dict[str, Any] = {
        **identity,
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
