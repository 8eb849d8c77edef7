"""Webhook configurations from declarations.

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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ctrlruntime.api.kinds import Manifest

__all__ = ["Webhook", "webhook_configurations"]


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
    service_name: str = "webhook-service"
    service_namespace: str = "system"
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
        """The webhook as it stands in a configuration."""
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
    """The mutating and the validating configuration, where there is something to put in.

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
