"""Folders of a project as kubebuilder lays them out, as far as code decides what is in them.

``crd/`` and ``rbac/`` are complete; what a Deployment needs beyond them is written by hand. Names are
unprefixed: the overlay in ``default/`` gives all of them the project's prefix and namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import Resource

from .document import to_yaml
from .output import crd_files
from .permissions import Rule, policy_rules, roles

__all__ = [
    "RBACLayout",
    "access_roles",
    "binding",
    "crd_layout",
    "kustomization",
    "rbac_layout",
]

Kind = type[Resource[Any, Any]]

RBAC = "rbac.authorization.k8s.io"
SYSTEM = "system"
"""The namespace in unprefixed manifests; the overlay replaces it."""

VIEW = ("get", "list", "watch")
EDIT = ("create", "delete", *VIEW, "patch", "update")


@dataclass(frozen=True, slots=True, kw_only=True)
class RBACLayout:
    """What goes into ``rbac/``.

    ``rules`` are the program's own and ``election`` those of leader election, in its own namespace.
    With ``aggregate``, the program also has what ClusterRoles with this label, set to ``true``, say.
    ``more`` are further ClusterRoles by file name, not bound. ``labels`` go on every object.
    """

    kinds: Sequence[Kind]
    rules: Sequence[Rule]
    election: Sequence[Rule] = ()
    account: str = "controller-manager"
    aggregate: str | None = None
    more: Mapping[str, Manifest] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


def rbac_layout(layout: RBACLayout) -> dict[str, str]:
    """Return the files of ``rbac/``, a kustomization among them.

    The role of the program, of leader election, of the metrics server (to ask who is asking) and of
    those who read metrics; for each kind those of an admin, an editor and a viewer.
    """
    account = layout.account
    manifests: dict[str, Manifest | list[Manifest]] = {
        "service_account": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": SYSTEM},
        },
        "role": roles(layout.rules),
        "role_binding": binding("manager-rolebinding", "manager-role", account),
    }
    if layout.aggregate is not None:
        manifests["aggregated_role"] = aggregated_role("manager-aggregated-role", layout.aggregate)
        manifests["aggregated_role_binding"] = binding(
            "manager-aggregated-rolebinding", "manager-aggregated-role", account
        )
    if layout.election:
        role = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "Role",
            "metadata": {"name": "leader-election-role"},
            "rules": policy_rules(layout.election),
        }
        manifests["leader_election_role"] = role
        manifests["leader_election_role_binding"] = binding(
            "leader-election-rolebinding", "leader-election-role", account, kind="Role"
        )
    manifests |= {
        "metrics_auth_role": _cluster_role("metrics-auth-role", METRICS_AUTH),
        "metrics_auth_role_binding": binding(
            "metrics-auth-rolebinding", "metrics-auth-role", account
        ),
        "metrics_reader_role": _cluster_role(
            "metrics-reader", [Rule(urls=("/metrics",), verbs=("get",))]
        ),
    }
    manifests |= layout.more
    for kind in layout.kinds:
        manifests |= access_roles(kind)
    files = {f"rbac/{name}.yaml": to_yaml(_labelled(m, layout)) for name, m in manifests.items()}
    return {**files, "rbac/kustomization.yaml": kustomization(f"{n}.yaml" for n in manifests)}


METRICS_AUTH = (
    Rule(groups=("authentication.k8s.io",), resources=("tokenreviews",), verbs=("create",)),
    Rule(groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)),
)
"""What a metrics server requests of the API server: token reviews and access reviews."""


def crd_layout(kinds: Iterable[Kind]) -> dict[str, str]:
    """Return the files of ``crd/``, a kustomization among them."""
    files = crd_files(kinds)
    resources = [name.removeprefix("crd/") for name in files]
    return {**files, "crd/kustomization.yaml": kustomization(resources)}


def access_roles(kind: Kind) -> dict[str, Manifest]:
    """ClusterRoles for people, by file name: who may do everything, change, or see a kind."""
    group, plural = kind.gvk().group, kind.mapping().plural
    name = kind.gvk().kind.lower()

    def rule(resource: str, verbs: tuple[str, ...]) -> Rule:
        return Rule(groups=(group,), resources=(resource,), verbs=verbs)

    status = [rule(f"{plural}/status", ("get",))] if kind.options().status else []
    wanted = {"admin": ("*",), "editor": EDIT, "viewer": VIEW}
    return {
        f"{name}_{who}_role": _cluster_role(f"{name}-{who}-role", [rule(plural, verbs), *status])
        for who, verbs in wanted.items()
    }


def aggregated_role(name: str, label: str) -> Manifest:
    """Return a ClusterRole with the rules of all that have the label.

    Without rules of its own: a controller of the cluster owns the field, and a second apply would conflict.
    """
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
    }


def binding(name: str, role: str, account: str, *, kind: str = "ClusterRole") -> Manifest:
    """Return a binding of a role, cluster-wide or in the account's namespace, to a service account."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": SYSTEM}],
    }


def kustomization(resources: Iterable[str], **more: object) -> str:
    """Return the text of a kustomization.yaml."""
    head: Manifest = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return to_yaml({**head, "resources": sorted(resources), **more})


def _cluster_role(name: str, rules: Iterable[Rule]) -> Manifest:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": policy_rules(rules),
    }


def _labelled(
    manifests: Manifest | list[Manifest], layout: RBACLayout
) -> Manifest | list[Manifest]:
    if isinstance(manifests, list):
        return [_with_labels(each, layout.labels) for each in manifests]
    return _with_labels(manifests, layout.labels)


def _with_labels(manifest: Manifest, labels: Mapping[str, str]) -> Manifest:
    if not labels:
        return manifest
    metadata = manifest["metadata"]
    metadata = {**metadata, "labels": {**labels, **metadata.get("labels", {})}}
    return {**manifest, "metadata": metadata}
