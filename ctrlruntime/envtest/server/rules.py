"""Validation of built-in kinds beyond their schema: required fields, enums, what must agree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.name_rules import label, qualified_name
from ctrlruntime.client.selectors import selector_matches
from ctrlruntime.envtest.schema.quantity import value_of
from ctrlruntime.envtest.server.access_rules import ROLE, ROLE_BINDING
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.definition_rules import check_definition
from ctrlruntime.envtest.server.errors import (
    FieldError,
    bad_value,
    duplicate,
    forbidden_field,
    not_supported,
    required,
    too_long,
)
from ctrlruntime.envtest.server.immutable import UPDATES
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.metadata import validate_labels
from ctrlruntime.envtest.server.network_rules import INGRESS, NETWORK_POLICY
from ctrlruntime.envtest.server.webhook_rules import HOOKS

_Object = dict[str, Any]
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')"
)

# -- pods ----------------------------------------------------------------------------------


def _container_names(spec: _Object, prefix: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            name = container.get("name")
            if not name:
                continue
            path = f"{prefix}{field}[{index}].name"
            for text in label(name):
                yield bad_value(path, name, text)
            if name in seen:
                yield duplicate(path, name)
            seen.add(name)


def _volume_mounts(spec: _Object, prefix: str) -> Iterator[FieldError]:
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            for at, mount in enumerate(container.get("volumeMounts") or ()):
                name = mount.get("name")
                path = f"{prefix}{field}[{index}].volumeMounts[{at}].name"
                if not name:
                    yield required(path)
                elif name not in volumes:
                    yield FieldError(path, "FieldValueNotFound", f'Not found: "{name}"')


def _deadline(spec: _Object, prefix: str) -> Iterator[FieldError]:
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 0 < seconds < 1 << 31:
        text = "must be between 1 and 2147483647, inclusive"
        yield bad_value(f"{prefix}activeDeadlineSeconds", seconds, text)


_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL: Final = ("Always", "IfNotPresent", "Never")
_CONTAINER: Final = Rules(
    required={"name": "", "image": ""},
    enums={"imagePullPolicy": _PULL, "terminationMessagePolicy": ("FallbackToLogsOnError", "File")},
    within={
        "ports": Rules(required={"containerPort": ""}, enums={"protocol": _PROTOCOLS}),
        "env": Rules(required={"name": ""}),
        "volumeMounts": Rules(required={"mountPath": ""}),
    },
)
_POD_SPEC: Final = Rules(
    required={"containers": ""},
    enums={
        "restartPolicy": ("Always", "OnFailure", "Never"),
        "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    },
    minimum={"terminationGracePeriodSeconds": 0},
    within={
        "containers": _CONTAINER,
        "initContainers": _CONTAINER,
        "volumes": Rules(required={"name": ""}),
    },
    checks=(_container_names, _volume_mounts, _deadline),
)
_TEMPLATE: Final = Rules(within={"spec": _POD_SPEC})


def _always(spec: _Object, prefix: str) -> Iterator[FieldError]:
    """Pods of a controller that replaces them are restarted always."""
    template = (spec.get("template") or {}).get("spec") or {}
    policy = template.get("restartPolicy")
    if policy != "Always" and policy:
        yield not_supported(f"{prefix}template.spec.restartPolicy", policy, ("Always",))


def _named_selector(spec: _Object, prefix: str) -> Iterator[FieldError]:
    if spec.get("selector") is None:
        yield required(f"{prefix}selector")


def _selects_template(spec: _Object, prefix: str) -> Iterator[FieldError]:
    selector = spec.get("selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if (
        selector is not None
        and not selector.get("matchLabels")
        and not selector.get("matchExpressions")
    ):
        detail = "empty selector is invalid for deployment"
        yield bad_value(f"{prefix}selector", selector, detail)
    if selector is None or not selector_matches(selector, labels):
        detail = "`selector` does not match template `labels`"
        yield bad_value(f"{prefix}template.metadata.labels", labels or None, detail)
    yield from validate_labels(labels, f"{prefix}template.metadata.labels")
    if not (spec.get("template") or {}).get("spec"):
        yield required(f"{prefix}template.spec.containers")


def _strategy(spec: _Object, prefix: str) -> Iterator[FieldError]:
    strategy = spec.get("strategy") or {}
    if strategy.get("type") not in {None, "", "Recreate", "RollingUpdate"}:
        yield not_supported(f"{prefix}strategy", strategy, ("Recreate", "RollingUpdate"))
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate") is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden_field(f"{prefix}strategy.rollingUpdate", detail)


def _set_strategy(spec: _Object, prefix: str) -> Iterator[FieldError]:
    strategy = spec.get("updateStrategy") or {}
    policy = spec.get("podManagementPolicy")
    if policy not in {None, "", "OrderedReady", "Parallel"}:
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield bad_value(f"{prefix}podManagementPolicy", policy, detail)
    if strategy.get("type") not in {None, "", "OnDelete", "RollingUpdate"}:
        yield bad_value(
            f"{prefix}updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'"
        )
    if strategy.get("type") == "OnDelete" and strategy.get("rollingUpdate") is not None:
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        yield bad_value(f"{prefix}updateStrategy.rollingUpdate", strategy["rollingUpdate"], detail)


def _progress(spec: _Object, prefix: str) -> Iterator[FieldError]:
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        detail = "must be greater than minReadySeconds"
        yield bad_value(f"{prefix}progressDeadlineSeconds", deadline, detail)


def _job_restart(spec: _Object, prefix: str) -> Iterator[FieldError]:
    template = (spec.get("template") or {}).get("spec") or {}
    policy = template.get("restartPolicy")
    path = f"{prefix}template.spec.restartPolicy"
    if policy in {None, "", "Always"}:
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in {"OnFailure", "Never"}:
        yield not_supported(path, policy, ("OnFailure", "Never"))


def _schedule(spec: _Object, prefix: str) -> Iterator[FieldError]:
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield required(f"{prefix}schedule")
    elif not schedule.startswith("@"):
        fields = schedule.split()
        if len(fields) != 5:
            detail = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
            yield bad_value(f"{prefix}schedule", schedule, detail)


_REPLICAS: Final = {"replicas": 0, "minReadySeconds": 0, "revisionHistoryLimit": 0}
_SET_CHECKS: Final = (_named_selector, _selects_template, _always)
_SET: Final = Rules(minimum=_REPLICAS, within={"template": _TEMPLATE}, checks=_SET_CHECKS)
_DAEMONS: Final = Rules(
    minimum=_REPLICAS, within={"template": _TEMPLATE}, checks=(_selects_template, _always)
)
_JOB_SPEC: Final = Rules(
    minimum={"completions": 0, "parallelism": 0, "backoffLimit": 0, "activeDeadlineSeconds": 0},
    enums={"completionMode": ("Indexed", "NonIndexed")},
    within={"template": _TEMPLATE},
    checks=(_job_restart,),
)

# -- core ----------------------------------------------------------------------------------


def _config_keys(obj: _Object, prefix: str) -> Iterator[FieldError]:
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            if not _CONFIG_KEY.fullmatch(key):
                yield bad_value(f"{prefix}{field}[{key}]", key, _CONFIG_KEY_TEXT)


_MOST_DATA: Final = 1024 * 1024


def _config_size(obj: _Object, prefix: str) -> Iterator[FieldError]:
    size = sum(len(text.encode()) for text in (obj.get("data") or {}).values())
    size += sum(map(_decoded_size, (obj.get("binaryData") or {}).values()))
    if size > _MOST_DATA:
        yield too_long("[]", _MOST_DATA)


def _secret_size(obj: _Object, prefix: str) -> Iterator[FieldError]:
    if sum(map(_decoded_size, (obj.get("data") or {}).values())) > _MOST_DATA:
        yield too_long(f"{prefix}data", _MOST_DATA)


def _decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _data_once(obj: _Object, prefix: str) -> Iterator[FieldError]:
    for key in obj.get("binaryData") or {}:
        if key in (obj.get("data") or {}):
            detail = "duplicate of key present in binaryData"
            yield bad_value(f"{prefix}data[{key}]", key, detail)


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


def _quota(spec: _Object, prefix: str) -> Iterator[FieldError]:
    for name, value in (spec.get("hard") or {}).items():
        path = f"{prefix}hard[{name}]"
        for text in qualified_name(name):
            yield bad_value(path, name, text)
        if "/" not in name and name not in _QUOTAS and not name.startswith(_HUGE_PAGES):
            yield bad_value(path, name, "must be a standard resource for quota")
        if value_of(value) < 0:
            yield bad_value(path, value, "must be greater than or equal to 0")


_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def _claim(spec: _Object, prefix: str) -> Iterator[FieldError]:
    for mode in spec.get("accessModes") or ():
        if mode not in _ACCESS_MODES:
            yield not_supported(f"{prefix}accessModes", mode, _ACCESS_MODES)
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        yield required(f"{prefix}resources[storage]")
    elif value_of(requests["storage"]) <= 0:
        shown = requests["storage"]
        yield bad_value(f"{prefix}resources[storage]", shown, "must be greater than zero")


def _secret_types(obj: _Object, prefix: str) -> Iterator[FieldError]:
    data = obj.get("data") or {}
    needed = {
        "kubernetes.io/tls": ("tls.crt", "tls.key"),
        "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
        "kubernetes.io/dockercfg": (".dockercfg",),
        "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    }
    for key in needed.get(str(obj.get("type")), ()):
        if key not in data:
            yield required(f"{prefix}data[{key}]")


def _service(spec: _Object, prefix: str) -> Iterator[FieldError]:
    ports = spec.get("ports") or []
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield required(f"{prefix}ports")
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        path = f"{prefix}ports[{index}]"
        known = port.get("protocol"), port.get("port")
        if known in numbers:
            yield duplicate(path, {"protocol": known[0], "port": known[1]})
        numbers.add(known)
        number = port.get("port")
        if not isinstance(number, int) or not 0 < number < 65536:
            yield bad_value(f"{path}.port", number or 0, "must be between 1 and 65535, inclusive")
        target = port.get("targetPort")
        if isinstance(target, int) and not 0 < target < 65536:
            yield bad_value(f"{path}.targetPort", target, "must be between 1 and 65535, inclusive")
        name = port.get("name") or ""
        if len(ports) > 1 and not name:
            yield required(f"{path}.name")
        elif name and name in names:
            yield duplicate(f"{path}.name", name)
        for text in label(name) if name else ():
            yield bad_value(f"{path}.name", name, text)
        names.add(name)
    if selector := spec.get("selector"):
        yield from validate_labels(selector, f"{prefix}selector")
    if spec.get("type") == "ExternalName" and not spec.get("externalName"):
        yield required(f"{prefix}externalName")


def _event(obj: _Object, prefix: str) -> Iterator[FieldError]:
    involved = (obj.get("involvedObject") or {}).get("namespace") or ""
    namespace = obj["metadata"].get("namespace") or ""
    if involved != namespace and not (not involved and namespace == "default"):
        detail = "does not match event.namespace"
        yield bad_value(f"{prefix}involvedObject.namespace", involved, detail)


def _budget(spec: _Object, prefix: str) -> Iterator[FieldError]:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        detail = "minAvailable and maxUnavailable cannot be both set"
        yield bad_value(prefix.rstrip("."), spec, detail)


def _autoscaler(spec: _Object, prefix: str) -> Iterator[FieldError]:
    most, least = spec.get("maxReplicas") or 0, spec.get("minReplicas", 1)
    if most < 1:
        yield bad_value(f"{prefix}maxReplicas", most, "must be greater than 0")
    if most < least:
        detail = "must be greater than or equal to `minReplicas`"
        yield bad_value(f"{prefix}maxReplicas", most, detail)


def _autoscaler_metrics(spec: _Object, prefix: str) -> Iterator[FieldError]:
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if spec.get("minReplicas") == 0 and not kinds & {"Object", "External"}:
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden_field(f"{prefix}metrics", text)
    for index, metric in enumerate(spec.get("metrics") or ()):
        target = (metric.get("resource") or {}).get("target") or {}
        share = target.get("averageUtilization")
        if share is not None and share < 1:
            path = f"{prefix}metrics[{index}].resource.target.averageUtilization"
            yield bad_value(path, share, "must be greater than 0")


def _lease(spec: _Object, prefix: str) -> Iterator[FieldError]:
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield bad_value(f"{prefix}leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        detail = "must be greater than or equal to 0"
        yield bad_value(f"{prefix}leaseTransitions", transitions, detail)


_TABLE: Final[dict[tuple[str, str], Rules]] = {
    ("", "Pod"): Rules(within={"spec": _POD_SPEC}),
    ("apps", "Deployment"): Rules(
        within={
            "spec": Rules(
                minimum=_REPLICAS,
                within={
                    "template": _TEMPLATE,
                },
                checks=(*_SET_CHECKS, _strategy, _progress),
            )
        },
    ),
    ("apps", "StatefulSet"): Rules(
        within={
            "spec": Rules(
                minimum=_REPLICAS,
                within={"template": _TEMPLATE},
                checks=(*_SET_CHECKS, _set_strategy),
            )
        },
    ),
    ("apps", "DaemonSet"): Rules(within={"spec": _DAEMONS}),
    ("apps", "ReplicaSet"): Rules(within={"spec": _SET}),
    ("batch", "Job"): Rules(within={"spec": _JOB_SPEC}),
    ("batch", "CronJob"): Rules(
        within={
            "spec": Rules(
                enums={"concurrencyPolicy": ("Allow", "Forbid", "Replace")},
                within={"jobTemplate": Rules(within={"spec": _JOB_SPEC})},
                checks=(_schedule,),
            )
        },
    ),
    ("", "ConfigMap"): Rules(checks=(_config_keys, _data_once, _config_size)),
    ("", "Secret"): Rules(checks=(_config_keys, _secret_types, _secret_size)),
    ("", "Service"): Rules(
        within={
            "spec": Rules(
                enums={
                    "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
                    "sessionAffinity": ("ClientIP", "None"),
                    "externalTrafficPolicy": ("Cluster", "Local"),
                },
                within={"ports": Rules(enums={"protocol": _PROTOCOLS})},
                checks=(_service,),
            )
        }
    ),
    ("", "Event"): Rules(checks=(_event,)),
    ("", "ResourceQuota"): Rules(within={"spec": Rules(checks=(_quota,))}),
    ("", "PersistentVolumeClaim"): Rules(
        within={
            "spec": Rules(
                required={"accessModes": "at least 1 access mode is required"},
                enums={"volumeMode": ("Block", "Filesystem")},
                checks=(_claim,),
            )
        }
    ),
    ("networking.k8s.io", "Ingress"): INGRESS,
    ("networking.k8s.io", "NetworkPolicy"): NETWORK_POLICY,
    ("policy", "PodDisruptionBudget"): Rules(within={"spec": Rules(checks=(_budget,))}),
    ("autoscaling", "HorizontalPodAutoscaler"): Rules(
        within={
            "spec": Rules(
                minimum={"minReplicas": 1},
                within={"scaleTargetRef": Rules(required={"kind": "", "name": ""})},
                checks=(_autoscaler, _autoscaler_metrics),
            )
        }
    ),
    ("coordination.k8s.io", "Lease"): Rules(within={"spec": Rules(checks=(_lease,))}),
    ("storage.k8s.io", "StorageClass"): Rules(
        required={"provisioner": ""},
        enums={
            "reclaimPolicy": ("Delete", "Retain"),
            "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
        },
    ),
    ("rbac.authorization.k8s.io", "Role"): ROLE,
    ("rbac.authorization.k8s.io", "ClusterRole"): ROLE,
    ("rbac.authorization.k8s.io", "RoleBinding"): ROLE_BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ROLE_BINDING,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): HOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): HOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): Rules(checks=(check_definition,)),
}


def check(kind: Kind, new: Manifest, old: Manifest | None, subresource: str) -> list[FieldError]:
    """Return the findings on a built-in object; `old` is the stored one of an update."""
    if subresource == "status":
        return []
    key = ("" if kind.kind == "Event" else kind.group, kind.kind)
    rules = _TABLE.get(key)
    if rules is not None and "spec" in rules.within and "spec" not in new:
        new = {**new, "spec": {}}  # in Go it is a struct, and always there
    found = rules.run(new) if rules is not None else []
    if old is not None and subresource not in {"binding", "ephemeralcontainers", "resize"}:
        for test in UPDATES.get(key, ()):
            found += test(new, old)
    return found
