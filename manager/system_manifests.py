"""The folder `by-system`: a Deployment for each system, with an account and rights of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.generate import roles, to_yaml
from ctrlruntime.generate.layout import SYSTEM, binding, kustomization
from ctrlruntime.generate.permissions import Rule, leads
from manager.options import system_lease

FOLDER = "by-system"
ACCOUNT = "controller-manager"
ROLE, ELECTION = "manager-role", "leader-election-role"
COMPONENT = "app.kubernetes.io/component"
"""Label of Deployment and Pods with the system; the labels that services and policies select stay."""
AGGREGATED, METRICS = "manager-aggregated", "metrics-auth"
ARGUMENTS = "/spec/template/spec/containers/0/args/-"
REPLACED = (
    ("Deployment", ACCOUNT),
    ("ServiceAccount", ACCOUNT),
    ("ClusterRole", ROLE),
    ("ClusterRoleBinding", "manager-rolebinding"),
    ("ClusterRoleBinding", f"{AGGREGATED}-rolebinding"),
    ("ClusterRoleBinding", f"{METRICS}-rolebinding"),
    ("Role", ELECTION),
    ("RoleBinding", "leader-election-rolebinding"),
)
"""Objects of `default` in whose place each system has its own."""
_DELETED = {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}, "$patch": "delete"}


def by_system_files(
    systems: Mapping[str, Iterable[Rule]], namespace: str, prefix: str, labels: Mapping[str, str]
) -> dict[str, str]:
    """Return the folder's files by path. `systems`: the rights that each needs; `prefix`: that of `default`."""
    made = {
        path: text
        for system, rules in systems.items()
        for path, text in _system_files(system, rules, namespace, prefix, labels).items()
    }
    patches = [_patch(_DELETED, kind, f"{prefix}{name}") for kind, name in REPLACED]
    whole = kustomization(["../default", *systems], patches=patches)
    return {f"{FOLDER}/kustomization.yaml": whole, **made}


def _system_files(
    system: str, rules: Iterable[Rule], namespace: str, prefix: str, labels: Mapping[str, str]
) -> dict[str, str]:
    role, *_ = roles(rules, ROLE)
    own = roles(leads(system_lease(system), namespace=SYSTEM), ELECTION)
    bound = [
        binding("manager-rolebinding", ROLE, ACCOUNT),
        binding("leader-election-rolebinding", ELECTION, ACCOUNT, kind="Role"),
        binding(f"{METRICS}-rolebinding", f"{prefix}{METRICS}-role", ACCOUNT),
    ]
    if system == "tenancy":  # rights to the kinds that templates name
        bound.append(binding(f"{AGGREGATED}-rolebinding", f"{prefix}{AGGREGATED}-role", ACCOUNT))
    account: Manifest = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": SYSTEM},
    }
    made = {"service_account": [account], "role": [role, *own], "role_binding": bound}
    arguments = [
        {"op": "add", "path": ARGUMENTS, "value": value}
        for value in (f"--system={system}", f"--leader-election-id={system_lease(system)}")
    ]
    head = {
        "namespace": namespace,
        "namePrefix": f"{prefix}{system}-",
        "labels": [{"pairs": {COMPONENT: system}, "includeSelectors": True}],
        "patches": [
            _patch(_DELETED, "Namespace", SYSTEM),
            _patch(arguments, "Deployment", ACCOUNT),
        ],
    }
    folder = f"{FOLDER}/{system}"
    return {
        f"{folder}/kustomization.yaml": kustomization(
            ["../../manager", *(f"{name}.yaml" for name in made)], **head
        ),
        **{
            f"{folder}/{name}.yaml": to_yaml(
                [{**e, "metadata": {**e["metadata"], "labels": dict(labels)}} for e in found]
            )
            for name, found in made.items()
        },
    }


def _patch(patch: object, kind: str, name: str) -> dict[str, object]:
    return {"patch": json.dumps(patch), "target": {"kind": kind, "name": name}}
