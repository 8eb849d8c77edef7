"""Webhook configurations from declarations.

A kind that declares its admission with ``@defaults`` and ``@validates`` needs nothing else
(``webhooks_of``). A webhook that no class declares is listed:

WEBHOOKS = (
    Webhook(
        name="vwebsite.example.com",
        mutating=False,
        path="/validate-website",
        groups=("example.com",),
        versions=("v1",),
        resources=("websites",),
    ),
)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.api.resource import Resource
from ctrlruntime.webhook.declaration import (
    AdmissionOptions,
    declared_by,
    mutating_path,
    validating_path,
)

from .permissions import Rule

__all__ = [
    "Webhook",
    "serves_webhooks",
    "webhook_configurations",
    "webhook_conversion",
    "webhooks_of",
]

SERVICE_NAME = "webhook-service"
SERVICE_NAMESPACE = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One admission webhook; the defaults are the API server's, and the service is controller-gen's.

    ``path`` (below the service) and ``url`` exclude each other. ``verbs``: create, update, delete,
    connect or ``*``, in any case. Raises ValueError for what the API server would refuse.
    """

    name: str
    mutating: bool
    groups: tuple[str, ...]
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    path: str | None = None
    url: str | None = None
    verbs: tuple[str, ...] = ("CREATE", "UPDATE")
    scope: Literal["*", "Namespaced", "Cluster"] = "*"
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent"
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    timeout_seconds: int | None = None
    reinvocation_policy: Literal["Never", "IfNeeded"] | None = None
    admission_review_versions: tuple[str, ...] = ("v1",)
    service_name: str = SERVICE_NAME
    service_namespace: str = SERVICE_NAMESPACE
    service_port: int | None = None
    namespace_selector: Mapping[str, Any] = field(default_factory=dict)
    object_selector: Mapping[str, Any] = field(default_factory=dict)
    match_conditions: tuple[Mapping[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.name.count(".") < 2:
            raise ValueError(f"webhook {self.name!r}: the name needs three parts, like a.b.c")
        if (self.path is None) == (self.url is None):
            raise ValueError(f"webhook {self.name!r}: give it a path or a url, one of the two")
        if self.path is not None and not self.path.startswith("/"):
            raise ValueError(f"webhook {self.name!r}: the path begins with a slash")
        if self.timeout_seconds is not None and not 1 <= self.timeout_seconds <= 30:
            raise ValueError(f"webhook {self.name!r}: timeout_seconds is 1 to 30")
        if self.reinvocation_policy is not None and not self.mutating:
            raise ValueError(f"webhook {self.name!r}: only a mutating webhook is reinvoked")

    def entry(self) -> dict[str, Any]:
        """Return the webhook as it stands in a configuration."""
        result: dict[str, Any] = {
            "name": self.name,
            "admissionReviewVersions": list(self.admission_review_versions),
            "clientConfig": self._client_config(),
            "failurePolicy": self.failure_policy,
            "matchPolicy": self.match_policy,
            "sideEffects": self.side_effects,
            "rules": [
                {
                    "apiGroups": list(self.groups),
                    "apiVersions": list(self.versions),
                    "operations": [verb.upper() for verb in self.verbs],
                    "resources": list(self.resources),
                    "scope": self.scope,
                }
            ],
        }
        optional = {
            "timeoutSeconds": self.timeout_seconds,
            "reinvocationPolicy": self.reinvocation_policy,
            "namespaceSelector": dict(self.namespace_selector),
            "objectSelector": dict(self.object_selector),
            "matchConditions": [dict(condition) for condition in self.match_conditions],
        }
        return {**result, **{key: value for key, value in optional.items() if value}}

    def _client_config(self) -> dict[str, Any]:
        if self.url is not None:
            return {"url": self.url}
        service: dict[str, Any] = {
            "name": self.service_name,
            "namespace": self.service_namespace,
            "path": self.path,
        }
        if self.service_port is not None:
            service["port"] = self.service_port
        return {"service": service}


def webhook_configurations(
    webhooks: Iterable[Webhook],
    *,
    mutating_name: str = "mutating-webhook-configuration",
    validating_name: str = "validating-webhook-configuration",
) -> list[Manifest]:
    """Return the mutating and the validating configuration, where there is something to put in.

    Raises ValueError if two webhooks of one configuration have the same name.
    """
    known = list(webhooks)
    manifests: list[Manifest] = []
    for mutating, kind, name in (
        (True, "MutatingWebhookConfiguration", mutating_name),
        (False, "ValidatingWebhookConfiguration", validating_name),
    ):
        own = sorted((hook for hook in known if hook.mutating == mutating), key=lambda h: h.name)
        names = [hook.name for hook in own]
        if len(set(names)) != len(names):
            raise ValueError(f"two webhooks have the same name: {', '.join(names)}")
        if own:
            manifests.append(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": kind,
                    "metadata": {"name": name},
                    "webhooks": [hook.entry() for hook in own],
                }
            )
    return manifests


def webhooks_of(
    kind: type[Resource[Any, Any]] | RESTMapping,
    *steps: Callable[..., Any],
    options: AdmissionOptions | None = None,
    **service: object,
) -> list[Webhook]:
    """Return the webhooks of what a class, and further ``steps``, declare: at most one of each sort.

    The same arguments given to ``manager.webhooks.register`` serve them. ``service``: service_name,
    service_namespace, service_port.
    """
    typed, mapping = (None, kind) if isinstance(kind, RESTMapping) else (kind, kind.mapping())
    declared = declared_by(typed, steps, options)
    how, gvk = declared.options, mapping.gvk
    resource = f"{mapping.plural}.{gvk.group}" if gvk.group else f"{mapping.plural}.core.k8s"
    common: dict[str, Any] = {
        "groups": (gvk.group,),
        "versions": (gvk.version,),
        "resources": (mapping.plural,),
        "failure_policy": how.failure_policy,
        "match_policy": how.match_policy,
        "side_effects": how.side_effects,
        "timeout_seconds": how.timeout_seconds,
        "namespace_selector": how.namespace_selector,
        "object_selector": how.object_selector,
        "match_conditions": how.match_conditions,
        **service,
    }
    result: list[Webhook] = []
    if declared.defaulters:
        result.append(
            Webhook(
                name=f"default-{gvk.version}.{resource}",
                mutating=True,
                path=mutating_path(gvk),
                verbs=declared.defaulted,
                reinvocation_policy=how.reinvocation_policy,
                **common,
            )
        )
    if declared.validators:
        result.append(
            Webhook(
                name=f"validate-{gvk.version}.{resource}",
                mutating=False,
                path=validating_path(gvk),
                verbs=tuple(declared.validators),
                **common,
            )
        )
    return result


def webhook_conversion(
    service_name: str = SERVICE_NAME, service_namespace: str = SERVICE_NAMESPACE
) -> dict[str, Any]:
    """Return the ``spec.conversion`` of a definition whose versions a manager converts."""
    service = {"name": service_name, "namespace": service_namespace, "path": "/convert"}
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]},
    }


def serves_webhooks(
    secret: str,
    namespace: str,
    *,
    mutating: Iterable[str] = (),
    validating: Iterable[str] = (),
    definitions: Iterable[str] = (),
    annotated: bool = False,
) -> tuple[Rule, ...]:
    """Return what a manager needs that makes its own certificates and injects its CA bundle.

    Reading and writing are limited to the objects named; creating cannot be. With ``annotated`` all
    configurations and definitions can be read and patched.
    """
    admission, extensions = "admissionregistration.k8s.io", "apiextensions.k8s.io"
    rules = [
        Rule(groups=("",), resources=("secrets",), verbs=("create",), namespace=namespace),
        Rule(
            groups=("",),
            resources=("secrets",),
            verbs=("get", "update", "watch"),
            names=(secret,),
            namespace=namespace,
        ),
    ]
    for group, resource, names in (
        (admission, "mutatingwebhookconfigurations", tuple(mutating)),
        (admission, "validatingwebhookconfigurations", tuple(validating)),
        (extensions, "customresourcedefinitions", tuple(definitions)),
    ):
        verbs: tuple[str, ...] = ("get", "patch", "watch")
        if annotated:
            verbs = ("get", "list", "patch", "watch")
            rules.append(Rule(groups=(group,), resources=(resource,), verbs=verbs))
        elif names:
            rules.append(Rule(groups=(group,), resources=(resource,), verbs=verbs, names=names))
    return tuple(rules)
