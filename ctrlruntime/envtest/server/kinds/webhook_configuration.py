"""MutatingWebhookConfigurations and ValidatingWebhookConfigurations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import (
    FieldError,
    bad_value,
    duplicate,
    not_supported,
    required,
)
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.kind import EXTENSION

_Object = dict[str, Any]
_CHOICES: Final = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
}
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")


def _webhooks(obj: _Object, prefix: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        path = f"{prefix}webhooks[{index}]"
        name = hook.get("name") or ""
        if name.count(".") < 2:
            detail = "should be a domain with at least three segments separated by dots"
            yield bad_value(f"{path}.name", name, detail)
        if name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
        yield from _webhook(hook, path)


def _webhook(hook: _Object, path: str) -> Iterator[FieldError]:
    if hook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
        text = "must specify one of None, NoneOnDryRun"
        if hook.get("sideEffects"):
            yield not_supported(
                f"{path}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun")
            )
        else:
            yield required(f"{path}.sideEffects", text)
    for field, allowed in _CHOICES.items():
        if hook.get(field) not in {None, "", *allowed}:
            yield not_supported(f"{path}.{field}", hook[field], allowed)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield bad_value(f"{path}.timeoutSeconds", seconds, detail)
    yield from _client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    if not hook.get("admissionReviewVersions"):
        text = "must specify one of v1, v1beta1"
        yield required(f"{path}.admissionReviewVersions", text)
    elif not {"v1", "v1beta1"} & set(hook["admissionReviewVersions"]):
        text = "must include at least one of v1, v1beta1"
        versions = hook["admissionReviewVersions"]
        yield bad_value(f"{path}.admissionReviewVersions", versions, text)
    for index, rule in enumerate(hook.get("rules") or ()):
        yield from _rule(rule, f"{path}.rules[{index}]")


def _client(client: _Object, path: str) -> Iterator[FieldError]:
    url = client.get("url")
    if bool(url) == bool(client.get("service")):
        yield required(path, "exactly one of url or service is required")
    if url and not url.startswith("https://"):
        scheme = url.partition("://")[0]
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield bad_value(f"{path}.url", scheme, detail)


def _rule(rule: _Object, path: str) -> Iterator[FieldError]:
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        if not rule.get(field):
            yield required(f"{path}.{field}")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    if rule.get("scope") not in {None, "", *_SCOPES}:
        yield not_supported(f"{path}.scope", rule["scope"], _SCOPES)


_WEBHOOK: Final = Defaults(
    {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
    },
    {
        "clientConfig": Defaults(within={"service": Defaults({"port": 443})}),
        "rules": Defaults({"scope": "*"}),
    },
)
_MUTATING: Final = Defaults({**_WEBHOOK.values, "reinvocationPolicy": "Never"}, _WEBHOOK.within)
_GROUP: Final = "admissionregistration.k8s.io"
_RULES: Final = Rules(checks=(_webhooks,))
WEBHOOK_CONFIGURATIONS: Final = (
    builtin_kind(
        _GROUP,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        **EXTENSION,
        defaults=Defaults(within={"webhooks": _MUTATING}),
        rules=_RULES,
    ),
    builtin_kind(
        _GROUP,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        **EXTENSION,
        defaults=Defaults(within={"webhooks": _WEBHOOK}),
        rules=_RULES,
    ),
)
