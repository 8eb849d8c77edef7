"""A Deployment for each system, with an account and rights of its own: `by-system`, `install`, `install-SYSTEM`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.generate import roles, to_yaml
from ctrlruntime.generate.layout import SYSTEM, binding, kustomization
from ctrlruntime.generate.permissions import Rule, leads
from ctrlruntime.generate.webhook import Webhook, serves_webhooks, webhook_configurations
from manager.options import LEADER_ELECTION_ID, RunOptions, mutating_name, system_lease

FOLDER = "by-system"
INSTALL = "install"
"""`by-system` and webhooks: what dist/install-all.yaml is. With a dash and a system: that one alone; dist/install.yaml
is the one of tenancy."""
ACCOUNT = "controller-manager"
ROLE, ELECTION = "manager-role", "leader-election-role"
COMPONENT = "app.kubernetes.io/component"
"""Label of Deployment and Pods with the system; the labels that services and policies select stay."""
AGGREGATED, METRICS = "manager-aggregated", "metrics-auth"
ARGUMENTS = "/spec/template/spec/containers/0/args/-"
PORTS = "/spec/template/spec/containers/0/ports/-"
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
_RUN = RunOptions()
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
    patches = [patch_of(_DELETED, kind, f"{prefix}{name}") for kind, name in REPLACED]
    whole = kustomization(["../default", *systems], patches=patches)
    return {f"{FOLDER}/kustomization.yaml": whole, **made}


def _system_files(
    system: str, rules: Iterable[Rule], namespace: str, prefix: str, labels: Mapping[str, str]
) -> dict[str, str]:
    role, *_ = roles(rules, ROLE)
    own = roles(leads(system_lease(system), LEADER_ELECTION_ID, namespace=SYSTEM), ELECTION)
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
    patches = [
        patch_of(_DELETED, "Namespace", SYSTEM),
        patch_of(
            _added(
                f"--system={system}",
                f"--leader-election-id={system_lease(system)}",
                f"--leader-election-shared-id={LEADER_ELECTION_ID}",
            ),
            "Deployment",
            ACCOUNT,
        ),
    ]
    folder = f"{FOLDER}/{system}"
    head = _head(system, namespace, prefix)
    return {
        f"{folder}/kustomization.yaml": kustomization(
            ["../../manager", *(f"{name}.yaml" for name in made)], **head, patches=patches
        ),
        **_written(folder, made, labels),
    }


def install_files(
    webhooks: Mapping[str, Iterable[Webhook]],
    namespace: str,
    prefix: str,
    labels: Mapping[str, str],
) -> dict[str, str]:
    """Return the files of `by-system` with webhooks. `webhooks`: those that the manager of each system serves."""
    made: dict[str, str] = {}
    patches = []
    removed = [patch_of(_DELETED, kind, f"{prefix}{name}") for kind, name in REPLACED]
    for system, served in webhooks.items():
        made |= _webhook_files(system, served, namespace, prefix, labels)
        name = f"{prefix}{system}-"
        arguments = _added(
            "--webhooks",
            f"--webhook-service-name={name}{_RUN.webhook_service_name}",
            f"--webhook-configuration={name}{_RUN.webhook_configuration}",
            f"--webhook-secret-name={_secret(system)}",
        )
        port = {"name": "webhooks", "containerPort": _RUN.webhook_port, "protocol": "TCP"}
        opened = {"op": "add", "path": PORTS, "value": port}
        serving = patch_of([*arguments, opened], "Deployment", f"{name}{ACCOUNT}")
        patches.append(serving)
        parts = [f"../only-{system}", f"../{FOLDER}/{system}", f"../{INSTALL}/{system}"]
        alone = kustomization(parts, patches=[*removed, serving])
        made[f"{INSTALL}-{system}/kustomization.yaml"] = alone
    whole = kustomization([f"../{FOLDER}", *webhooks], patches=patches)
    return {f"{INSTALL}/kustomization.yaml": whole, **made}


def _webhook_files(
    system: str,
    served: Iterable[Webhook],
    namespace: str,
    prefix: str,
    labels: Mapping[str, str],
) -> dict[str, str]:
    """Return the configuration of a system's webhooks, their Service, and the rights to serve them."""
    configuration = f"{prefix}{system}-{_RUN.webhook_configuration}"
    role = "webhook-role"
    service: Manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _RUN.webhook_service_name, "namespace": SYSTEM},
        "spec": {
            "selector": {
                "app.kubernetes.io/name": labels["app.kubernetes.io/name"],
                "control-plane": ACCOUNT,
            },
            "ports": [{"port": 443, "protocol": "TCP", "targetPort": _RUN.webhook_port}],
        },
    }
    mutating = mutating_name(configuration)
    rules = serves_webhooks(
        _secret(system), SYSTEM, mutating=[mutating], validating=[configuration]
    )
    made = {
        "role": roles(rules, role),
        "role_binding": [
            binding("webhook-rolebinding", role, ACCOUNT, kind=kind)
            for kind in ("ClusterRole", "Role")
        ],
        "service": [service],
    }
    folder = f"{INSTALL}/{system}"
    files = {
        f"{folder}/manifests.yaml": to_yaml(_configurations(served)),
        **_written(folder, made, labels),
    }
    names = [path.removeprefix(f"{folder}/") for path in files]
    head = kustomization(names, **_head(system, namespace, prefix))
    return {f"{folder}/kustomization.yaml": head, **files}


def _configurations(served: Iterable[Webhook]) -> list[Manifest]:
    """Return both configurations, one that has no webhooks too: managers follow both."""
    found = {each["kind"]: each for each in webhook_configurations(served)}
    names = {
        "MutatingWebhookConfiguration": mutating_name(_RUN.webhook_configuration),
        "ValidatingWebhookConfiguration": _RUN.webhook_configuration,
    }
    return [found.get(kind, _configuration(kind, name)) for kind, name in names.items()]


def _configuration(kind: str, name: str) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
    }


def _secret(system: str) -> str:
    return f"{system}-{_RUN.webhook_secret_name}"


def _head(system: str, namespace: str, prefix: str) -> dict[str, object]:
    """Return what puts the objects of a folder into the namespace, under the names of the system."""
    return {
        "namespace": namespace,
        "namePrefix": f"{prefix}{system}-",
        "labels": [{"pairs": {COMPONENT: system}, "includeSelectors": True}],
    }


def _written(
    folder: str, made: Mapping[str, Iterable[Manifest]], labels: Mapping[str, str]
) -> dict[str, str]:
    return {
        f"{folder}/{name}.yaml": to_yaml(
            [{**e, "metadata": {**e["metadata"], "labels": dict(labels)}} for e in found]
        )
        for name, found in made.items()
    }


def _added(*arguments: str) -> list[dict[str, object]]:
    return [{"op": "add", "path": ARGUMENTS, "value": value} for value in arguments]


def patch_of(patch: object, kind: str, name: str) -> dict[str, object]:
    """Return a patch in a kustomization; `name` is a regular expression."""
    return {"patch": json.dumps(patch), "target": {"kind": kind, "name": name}}
