"""The objects of one stack. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis.fleet.fleetconfig import StackPods
from apis.fleet.labels import (
    DATA_PLANE_ID,
    KUBECONFIG_KEY,
    KUBECONFIG_MOUNT,
    KUBECONFIG_PATH,
    KUBECONFIG_SECRET,
    LEASE,
    PLANE_NAMESPACE,
)
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.outbound_addresses import ALLOWED
from ctrlruntime.resources import Desired
from internal.fleet.labels import (
    ACCOUNT,
    ADMISSION,
    CONTROLLERS,
    KUBECONFIG_HASH,
    NAME,
    SELECTED,
    WORKERS,
)
from internal.fleet.stack_layout import SHARDS, Layout

DEPLOYMENT: Final = BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]
STATEFUL_SET: Final = BUILTIN[GroupVersionKind("apps", "v1", "StatefulSet")]
SERVICE: Final = BUILTIN[GroupVersionKind("", "v1", "Service")]
SERVICE_ACCOUNT: Final = BUILTIN[GroupVersionKind("", "v1", "ServiceAccount")]
WORKLOADS: Final = (DEPLOYMENT, STATEFUL_SET)
SUPPORT: Final = (SERVICE, SERVICE_ACCOUNT)
VOLUME: Final = "data-plane-kubeconfig"
WEBHOOK_PORT: Final = 9443
PROBE_PORT: Final = 8081


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """How stacks are deployed."""

    image: str
    """Image of all containers: the manager's."""
    controllers: int = 2
    """Pods of the controllers, of which one is elected."""
    admission: int = 1
    workers: int = 1
    restrict_hub_secrets: bool = True
    """Let stacks read Secrets of the hub in their parallel namespaces and their own alone."""
    arguments: tuple[str, ...] = ()
    """Further arguments of `manager run`."""
    allow_addresses: str = ""
    """Networks that the stacks may reach although they are special: those of the operator."""
    local_pods: bool = False
    """Let simulated nodes run the Pods as local processes; for test environments alone."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved of the kubeconfig of a data plane."""

    digest: str
    """Its hash."""
    identity: str
    """The id of the data plane that it leads to."""


def build_stack(
    namespace: str,
    options: StackOptions,
    proof: Proof | None = None,
    admission_url: str = "",
    pods: StackPods | None = None,
    layout: Layout = Layout(),  # noqa: B008 - frozen
) -> list[Desired]:
    """Return the objects of a stack. Without a `proof` there is no data plane: it works on this cluster.

    `admission_url`: where the data plane reaches the admission Pods; empty: their webhooks are not configured there.
    `pods`: what the FleetConfig specifies of them; `layout`: which of them are the controllers.
    """
    controllers = options.controllers if layout.controllers else 0
    made = [
        (SERVICE_ACCOUNT, _object(SERVICE_ACCOUNT, ACCOUNT, namespace), 0),
        (SERVICE, _service(ADMISSION, namespace, {"port": 443, "targetPort": WEBHOOK_PORT}), 1),
        (SERVICE, _service(WORKERS, namespace, None), 1),
        (DEPLOYMENT, _deployment(CONTROLLERS, namespace, controllers), 2),
        (DEPLOYMENT, _deployment(ADMISSION, namespace, options.admission), 2),
        (STATEFUL_SET, _stateful_set(namespace, layout.shards or options.workers), 2),
    ]
    desired = []
    for mapping, manifest, ordinal in made:
        if mapping in WORKLOADS:
            name = manifest["metadata"]["name"]
            url = admission_url if name == ADMISSION else ""
            shares = name == WORKERS and layout.shards > 0
            template = _template(name, options, proof, url, shares=shares)
            manifest["spec"]["template"] = _as_specified(template, name, pods or StackPods())
        desired.append(
            Desired(mapping=mapping, manifest=manifest, ordinal=ordinal, reference=False)
        )
    return desired


def _object(mapping: RESTMapping, name: str, namespace: str, **fields: object) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": _labels(name)}
    gvk = mapping.gvk
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, **fields}


def _labels(name: str) -> dict[str, str]:
    return {NAME: name, **SELECTED}


def _deployment(name: str, namespace: str, replicas: int) -> Manifest:
    spec = {"replicas": replicas, "selector": {"matchLabels": _labels(name)}}
    return _object(DEPLOYMENT, name, namespace, spec=spec)


def _stateful_set(namespace: str, replicas: int) -> Manifest:
    spec = {
        "replicas": replicas,
        "serviceName": WORKERS,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": _labels(WORKERS)},
    }
    return _object(STATEFUL_SET, WORKERS, namespace, spec=spec)


def _service(name: str, namespace: str, port: dict[str, Any] | None) -> Manifest:
    spec: dict[str, Any] = {"selector": _labels(name)}
    if port is None:
        spec["clusterIP"] = "None"
        port = {"port": PROBE_PORT}
    spec["ports"] = [{"name": "webhooks" if "targetPort" in port else "probes", **port}]
    return _object(SERVICE, name, namespace, spec=spec)


def _template(
    name: str, options: StackOptions, proof: Proof | None, url: str, *, shares: bool
) -> Manifest:
    annotations = {"kubectl.kubernetes.io/default-container": "manager"}
    if options.local_pods:
        annotations["ctrlruntime.dev/run-local"] = "true"
    spec: dict[str, Any] = {
        "serviceAccountName": ACCOUNT,
        "terminationGracePeriodSeconds": 45,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(name, options, proof, url, shares=shares)],
    }
    if proof is not None:
        annotations[KUBECONFIG_HASH] = proof.digest
        annotations[DATA_PLANE_ID] = proof.identity
        source = {
            "secretName": KUBECONFIG_SECRET,
            "defaultMode": 0o440,
            "items": [{"key": KUBECONFIG_KEY, "path": KUBECONFIG_KEY}],
        }
        spec["volumes"] = [{"name": VOLUME, "secret": source}]
    return {"metadata": {"labels": _labels(name), "annotations": annotations}, "spec": spec}


def _as_specified(template: Manifest, name: str, pods: StackPods) -> Manifest:
    """Return the template with what the FleetConfig specifies: what it leaves out changes nothing, so that no Pod rolls for it."""
    spec, (container,) = template["spec"], template["spec"]["containers"]
    given = {CONTROLLERS: pods.controllers, ADMISSION: pods.admission, WORKERS: pods.workers}[name]
    for kind, wanted in (("requests", given.requests), ("limits", given.limits)):
        container["resources"][kind].update({key: str(each) for key, each in wanted.items()})
    placed = {
        "nodeSelector": dict(pods.node_selector),
        "tolerations": list(pods.tolerations),
        "imagePullSecrets": [{"name": each.name} for each in pods.image_pull_secrets],
        "priorityClassName": pods.priority_class_name,
    }
    spec.update({field: value for field, value in placed.items() if value})
    return template


def _container(
    name: str, options: StackOptions, proof: Proof | None, url: str, *, shares: bool
) -> Manifest:
    probe = {"httpGet": {"path": "/healthz", "port": "probes"}}
    container: dict[str, Any] = {
        "name": "manager",
        "image": options.image,
        "args": arguments_of(name, options, proof, url, shares=shares),
        "ports": [
            {"name": "metrics", "containerPort": 8443, "protocol": "TCP"},
            {"name": "probes", "containerPort": PROBE_PORT, "protocol": "TCP"},
        ],
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "startupProbe": {**probe, "periodSeconds": 2, "failureThreshold": 30},
        "livenessProbe": {**probe, "periodSeconds": 20, "timeoutSeconds": 5},
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "probes"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
        },
        "resources": {
            "limits": {"cpu": "2", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
    }
    if options.allow_addresses:
        container["env"] = [{"name": ALLOWED, "value": options.allow_addresses}]
    if proof is not None:
        mount = {"name": VOLUME, "mountPath": KUBECONFIG_MOUNT, "readOnly": True}
        container["volumeMounts"] = [mount]
    return container


def arguments_of(
    name: str,
    options: StackOptions,
    proof: Proof | None,
    admission_url: str = "",
    *,
    shares: bool = False,
) -> Sequence[str]:
    """Return the arguments of a workload's container. `shares`: its Pods are members."""
    arguments = ["run", f"--role={name.removeprefix('fleet-')}"]
    if proof is not None:
        arguments.append(f"--data-plane-kubeconfig={KUBECONFIG_PATH}")
        arguments.append(f"--data-plane-id={proof.identity}")
        if not options.restrict_hub_secrets and name != ADMISSION:
            arguments.append("--unrestricted-hub-secrets")
        if admission_url:
            arguments.append(f"--admission-url={admission_url}")
    if name == CONTROLLERS or shares:
        arguments += ["--leader-elect", f"--leader-election-id={LEASE}"]
        if proof is not None:
            arguments.append(f"--leader-election-namespace={PLANE_NAMESPACE}")
    if shares:
        arguments.append(SHARDS)
    arguments += [
        f"--health-probe-bind-address=:{PROBE_PORT}",
        "--metrics-bind-address=:8443",
        "--metrics-secure",
        *options.arguments,
    ]
    return arguments
