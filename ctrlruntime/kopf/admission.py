"""Validating and mutating handlers as webhooks, and the configurations that lead to them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, APIError
from ctrlruntime.json import json_patch
from ctrlruntime.kopf.bodies import Body, Patch
from ctrlruntime.kopf.errors import AdmissionError, NotOffered
from ctrlruntime.kopf.filters import Cause, matches
from ctrlruntime.kopf.handling import Invocation, call
from ctrlruntime.kopf.objects import ObjectHandling
from ctrlruntime.kopf.registry import Handler
from ctrlruntime.kopf.settings import Admission
from ctrlruntime.webhook.admission import AdmissionRequest, AdmissionResponse, allowed, refused
from ctrlruntime.webhook.options import WebhookOptions

__all__ = ["Review", "serving", "write_configurations"]


@dataclass(frozen=True, slots=True)
class Review:
    """Answers admission reviews by one handler."""

    handler: Handler
    handling: ObjectHandling
    path: str

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        """Allow what the handler's filters leave out, and what it does not raise an error for."""
        old, new = request.old_manifest(), request.manifest()
        body = Body(new or old or {})
        body.setdefault("metadata", {}).setdefault("name", request.name)
        warnings: list[str] = []
        cause = self._cause(request, body, old, new)
        cause.kwargs["warnings"] = warnings
        if not matches(self.handler, cause):
            return allowed()
        invocation: Invocation = self.handling.invocation(body)
        given = cause.kwargs | {"param": self.handler.param, "retry": 0}
        try:
            await invocation.call(call(self.handler.fn, given, self.handling.threads))
        except Exception as error:  # noqa: BLE001 - whatever it is denies, as in kopf
            code = error.code if isinstance(error, AdmissionError) else 500
            return refused(APIError(str(error) or repr(error), code=code), *warnings)
        patch: Patch = cause.kwargs["patch"]
        if not patch or self.handler.reason != "mutate" or new is None:
            return allowed(*warnings)
        changes = tuple(json_patch(new, _merged(new, patch)))
        return AdmissionResponse(allowed=True, warnings=tuple(warnings), patch=changes)

    def _cause(
        self, request: AdmissionRequest, body: Body, old: Manifest | None, new: Manifest | None
    ) -> Cause:
        cause = self.handling.cause(self.handler.reason, body, self.handling.memo)
        cause.old, cause.new = old, new
        user = request.user_info
        cause.kwargs |= cause.of_field(self.handler) | {
            "operation": request.operation,
            "subresource": request.sub_resource or None,
            "dryrun": bool(request.dry_run),
            "userinfo": {"username": user.username, "uid": user.uid, "groups": list(user.groups)},
            "headers": {},
            "sslpeer": {},
        }
        return cause

    def entry(self, client_config: Mapping[str, Any], suffix: str) -> Manifest:
        """Return its webhook in a configuration."""
        options, mapping = self.handler.options, self.handling.kind.mapping
        operations = options.get("operations") or (options.get("operation") or "*",)
        below = {None: [""], "*": ["", "/*"]}.get(options.get("subresource")) or [
            f"/{options['subresource']}"
        ]
        rule = {
            "apiGroups": [mapping.gvk.group],
            "apiVersions": [mapping.gvk.version],
            "resources": [f"{mapping.plural}{each}" for each in below],
            "operations": list(operations),
        }
        name = self.path.rpartition("/")[2].lower().replace("_", "-").strip("-")
        return {
            "name": f"{name}.{suffix}",
            "rules": [rule],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun" if options.get("side_effects") else "None",
            "failurePolicy": "Ignore" if options.get("ignore_failures") else "Fail",
            "clientConfig": _at(client_config, self.path),
        }


def path_of(handler: Handler, mapping: RESTMapping) -> str:
    """Return where a handler is served."""
    return f"/kopf/{mapping.plural}/{re.sub(r'[^A-Za-z0-9]+', '-', handler.id)}"


def _merged(target: object, patch: object) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(patch, Mapping):
        return patch
    base = dict(target) if isinstance(target, Mapping) else {}
    merged = {name: _merged(base.get(name), value) for name, value in patch.items()}
    return {key: value for key, value in (base | merged).items() if value is not None}


def _at(config: Mapping[str, Any], path: str) -> Manifest:
    if "url" in config:
        return {**config, "url": f"{config['url']}{path}"}
    return {**config, "service": {**config["service"], "path": path}}


def serving(options: WebhookOptions, admission: Admission) -> WebhookOptions:
    """Return the manager's options with those of the settings."""
    server, name = admission.server, admission.managed
    if server is not None:
        options = replace(options, host=server.addr, port=server.port)
        if server.certfile is not None and server.pkeyfile is not None:
            if server.certfile.parent != server.pkeyfile.parent:
                raise NotOffered("certfile and pkeyfile are files of one folder")
            options = replace(
                options,
                certificate_folder=server.certfile.parent,
                certificate_name=server.certfile.name,
                key_name=server.pkeyfile.name,
            )
    if name and options.certificate_folder is None:  # the manager makes the CA and injects it
        options = replace(
            options, validating_configurations=(name,), mutating_configurations=(name,)
        )
    return options


async def write_configurations(
    client: Client,
    reviews: list[Review],
    admission: Admission,
    options: WebhookOptions,
    namespace: str,
) -> None:
    """Create or update the configurations that `admission.managed` names. Raises APIError."""
    server = admission.server
    if server is not None and server.host:
        config: dict[str, Any] = {"url": f"https://{server.host}:{server.port}"}
    else:
        service = {"name": options.service_name, "namespace": options.secret_namespace or namespace}
        config = {"service": {**service, "port": 443}}
    if server is not None and server.cafile is not None:
        config["caBundle"] = base64.b64encode(server.cafile.read_bytes()).decode()
    for reason, kind in (
        ("validate", "ValidatingWebhookConfiguration"),
        ("mutate", "MutatingWebhookConfiguration"),
    ):
        name = admission.managed or ""
        entries = [each.entry(config, name) for each in reviews if each.handler.reason == reason]
        if entries:
            await _put(client, kind, name, entries)


async def _put(client: Client, kind: str, name: str, webhooks: list[Manifest]) -> None:
    mapping = BUILTIN[GroupVersionKind("admissionregistration.k8s.io", "v1", kind)]
    manifest = {
        "apiVersion": mapping.gvk.api_version,
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks,
    }
    try:
        await client.create(manifest, kind=mapping)
    except AlreadyExists:
        await client.patch(mapping, name, {"webhooks": webhooks})
