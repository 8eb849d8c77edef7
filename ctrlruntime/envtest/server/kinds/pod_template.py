"""Defaults and rules of Pod specs, in Pods and in the templates of what makes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from ctrlruntime.api.name_rules import label
from ctrlruntime.envtest.schema.quantity import value_of
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import (
    FieldError,
    bad_value,
    duplicate,
    forbidden_field,
    required,
)

_Object = dict[str, Any]
_SOURCES: Final = frozenset({"name"})
_PROBES: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOKS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_VALUES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_PROJECTED: Final = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)
_VARIABLE: Final = re.compile(r"[ -<>-~]+")
_VARIABLE_TEXT: Final = (
    "a valid environment variable name must consist only of printable ASCII characters "
    "other than '='"
)


def _pull_policy(container: _Object) -> None:
    if container.get("imagePullPolicy"):
        return
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    latest = (not tag and "@" not in image) or tag == "latest"
    container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"


def _volume_source(volume: _Object) -> None:
    if not set(volume) - _SOURCES:
        volume["emptyDir"] = {}


def _service_account(spec: _Object) -> None:
    """Set the old name of the field as the new one."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


_HTTP_GET: Final = Defaults({"path": "/", "scheme": "HTTP"})
_PROBE: Final = Defaults(
    {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    {"httpGet": _HTTP_GET, "grpc": Defaults({"service": ""})},
)
_HANDLER: Final = Defaults(within={"httpGet": _HTTP_GET})
_FIELD_REF: Final = Defaults({"apiVersion": "v1"})
CONTAINER: Final = Defaults(
    {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    },
    {
        "ports": Defaults({"protocol": "TCP"}),
        "env": Defaults(
            within={
                "valueFrom": Defaults(
                    within={"fieldRef": _FIELD_REF, "resourceFieldRef": Defaults({"divisor": "0"})}
                )
            }
        ),
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "startupProbe": _PROBE,
        "lifecycle": Defaults(within={"postStart": _HANDLER, "preStop": _HANDLER}),
    },
    (_pull_policy,),
)
_MODE: Final = Defaults({"defaultMode": 0o644})
_DOWNWARD: Final = Defaults(within={"items": Defaults(within={"fieldRef": _FIELD_REF})})
_CLAIM_TEMPLATE: Final = Defaults(
    {"metadata": {}}, {"spec": Defaults({"volumeMode": "Filesystem"})}
)
_VOLUME: Final = Defaults(
    within={
        "secret": _MODE,
        "configMap": _MODE,
        "downwardAPI": Defaults({"defaultMode": 0o644}, _DOWNWARD.within),
        "projected": Defaults(
            {"defaultMode": 0o644},
            {
                "sources": Defaults(
                    within={
                        "serviceAccountToken": Defaults({"expirationSeconds": 3600}),
                        "downwardAPI": _DOWNWARD,
                    }
                )
            },
        ),
        "hostPath": Defaults({"type": ""}),
        "iscsi": Defaults({"iscsiInterface": "default"}),
        "rbd": Defaults({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        "azureDisk": Defaults({"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False}),
        "ephemeral": Defaults(within={"volumeClaimTemplate": _CLAIM_TEMPLATE}),
    },
    rules=(_volume_source,),
)
POD_SPEC: Final = Defaults(
    {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    {
        "containers": CONTAINER,
        "initContainers": CONTAINER,
        "ephemeralContainers": CONTAINER,
        "volumes": _VOLUME,
    },
    (_service_account,),
)
TEMPLATE: Final = Defaults({"spec": {}}, {"spec": POD_SPEC})


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
    yield from volume_mounts(spec, prefix)


def volume_mounts(spec: _Object, prefix: str, more: Iterable[str] = ()) -> Iterator[FieldError]:
    """Check the mounts of a Pod spec's containers; `more` are volumes beside its own."""
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()} | set(more)
    for path, container in _containers(spec, prefix):
        places: set[str] = set()
        for at, mount in enumerate(container.get("volumeMounts") or ()):
            name, place = mount.get("name"), mount.get("mountPath")
            if not name:
                yield required(f"{path}.volumeMounts[{at}].name")
            elif name not in volumes:
                where = f"{path}.volumeMounts[{at}].name"
                yield FieldError(where, "FieldValueNotFound", f'Not found: "{name}"')
            if place in places:
                yield bad_value(f"{path}.volumeMounts[{at}].mountPath", place, "must be unique")
            places.add(place)


def _containers(spec: _Object, prefix: str) -> Iterator[tuple[str, _Object]]:
    """Path and content of each container."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"{prefix}{field}[{index}]", container


def _ports(spec: _Object, prefix: str) -> Iterator[FieldError]:
    for path, container in _containers(spec, prefix):
        for at, port in enumerate(container.get("ports") or ()):
            for name in ("containerPort", "hostPort"):
                number = port.get(name)
                if number and not 0 < number < 65536:
                    text = "must be between 1 and 65535, inclusive"
                    yield bad_value(f"{path}.ports[{at}].{name}", number, text)


def _variables(spec: _Object, prefix: str) -> Iterator[FieldError]:
    for path, container in _containers(spec, prefix):
        for at, variable in enumerate(container.get("env") or ()):
            name = variable.get("name")
            if name and not _VARIABLE.fullmatch(name):
                yield bad_value(f"{path}.env[{at}].name", name, _VARIABLE_TEXT)


def _requests(spec: _Object, prefix: str) -> Iterator[FieldError]:
    for path, container in _containers(spec, prefix):
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        for name, amount in (resources.get("requests") or {}).items():
            limit = limits.get(name)
            if limit is not None and value_of(amount) > value_of(limit):
                text = f"must be less than or equal to {name} limit of {limit}"
                yield bad_value(f"{path}.resources.requests", str(amount), text)


def _handlers(spec: _Object, prefix: str) -> Iterator[FieldError]:
    for path, container in _containers(spec, prefix):
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            yield from _handler(container.get(name), f"{path}.{name}", _PROBES)
        lifecycle = container.get("lifecycle") or {}
        for name in ("postStart", "preStop"):
            yield from _handler(lifecycle.get(name), f"{path}.lifecycle.{name}", _HOOKS)


def _handler(given: _Object | None, path: str, members: Iterable[str]) -> Iterator[FieldError]:
    if given is None:
        return
    found = _named(given, members)
    if not found:
        yield required(path, "must specify a handler type")
    for each in found[1:]:
        yield forbidden_field(f"{path}.{each}", "may not specify more than 1 handler type")


def _named(union: _Object, members: Iterable[str]) -> list[str]:
    """Return which members of a union are given, in the order of `members`."""
    return [each for each in members if union.get(each) is not None]


def _unions(spec: _Object, prefix: str) -> Iterator[FieldError]:
    """Refuse a variable with two values or none, and a volume of two types."""
    for path, container in _containers(spec, prefix):
        for at, variable in enumerate(container.get("env") or ()):
            if (source := variable.get("valueFrom")) is not None:
                value = str(variable.get("value") or "")
                yield from _value_from(source, f"{path}.env[{at}].valueFrom", value)
        for source in container.get("envFrom") or ():
            yield from _one_of(source, f"{path}.envFrom", ("configMapRef", "secretRef"))
    for index, volume in enumerate(spec.get("volumes") or ()):
        path = f"{prefix}volumes[{index}]"
        types = sorted(set(volume) - _SOURCES, key=lambda each: (each != "emptyDir", each))
        for each in types[1:]:
            yield forbidden_field(f"{path}.{each}", "may not specify more than 1 volume type")
        for at, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if len(_named(source, _PROJECTED)) > 1:
                where = f"{path}.projected.sources[{at}]"
                yield forbidden_field(where, "may not specify more than 1 volume type per source")


def _value_from(source: _Object, path: str, value: str) -> Iterator[FieldError]:
    if value and _named(source, _VALUES):
        yield bad_value(path, "", "may not be specified when `value` is not empty")
    else:
        yield from _one_of(source, path, _VALUES)


def _one_of(union: _Object, path: str, members: tuple[str, ...]) -> Iterator[FieldError]:
    found = _named(union, members)
    if len(found) > 1:
        yield bad_value(path, "", "may not have more than one field specified at a time")
    if not found:
        *first, last = (f"`{each}`" for each in members)
        yield bad_value(path, "", f"must specify one of: {', '.join(first)} or {last}")


def _deadline(spec: _Object, prefix: str) -> Iterator[FieldError]:
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 0 < seconds < 1 << 31:
        text = "must be between 1 and 2147483647, inclusive"
        yield bad_value(f"{prefix}activeDeadlineSeconds", seconds, text)


PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL: Final = ("Always", "IfNotPresent", "Never")
_CONTAINER: Final = Rules(
    required={"name": "", "image": ""},
    enums={"imagePullPolicy": _PULL, "terminationMessagePolicy": ("FallbackToLogsOnError", "File")},
    within={
        "ports": Rules(required={"containerPort": ""}, enums={"protocol": PROTOCOLS}),
        "env": Rules(required={"name": ""}),
        "volumeMounts": Rules(required={"mountPath": ""}),
    },
)
_POD_SPEC_RULES: Final = Rules(
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
    checks=(_container_names, _ports, _variables, _requests, _handlers, _unions, _deadline),
)
POD_SPEC_RULES: Final = replace(_POD_SPEC_RULES, checks=(*_POD_SPEC_RULES.checks, _volume_mounts))
TEMPLATE_RULES: Final = Rules(within={"spec": POD_SPEC_RULES})
CLAIMING_TEMPLATE_RULES: Final = Rules(within={"spec": _POD_SPEC_RULES})
"""Of a template whose Pods get more volumes than it has: `volume_mounts` is the caller's."""
