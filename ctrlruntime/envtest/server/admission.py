"""Admission webhooks: which are asked, in what order, and what their answers do."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.selectors import selector_matches
from ctrlruntime.clock import new_uid
from ctrlruntime.envtest.merge.patches import PatchRefused, json_patch
from ctrlruntime.envtest.schema.evaluator import cel
from ctrlruntime.envtest.server import conversion
from ctrlruntime.envtest.server.auth import lists_value
from ctrlruntime.envtest.server.cleaning import Cleaner
from ctrlruntime.envtest.server.conversion_webhook import ConversionWebhook, converts
from ctrlruntime.envtest.server.errors import StatusError, bad_request, internal
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.request import Request
from ctrlruntime.envtest.server.scale import scale_view
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.webhooks import CallError, WebhookClient

_GROUP: Final = "admissionregistration.k8s.io"
_MUTATING: Final = f"mutatingwebhookconfigurations.{_GROUP}"
_VALIDATING: Final = f"validatingwebhookconfigurations.{_GROUP}"
_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_SAFE: Final = frozenset({"None", "NoneOnDryRun"})


@dataclass(slots=True)
class Call:
    """One write on its way through the webhooks. `new` is empty for a delete."""

    kind: Kind
    request: Request
    operation: str
    new: Manifest
    old: Manifest | None
    forms: dict[str, tuple[Manifest, Manifest | None]] = field(default_factory=dict)
    """New and old in versions that a conversion webhook made for hooks that match an equivalent version."""

    def form(self, version: str) -> tuple[Manifest, Manifest | None]:
        """Return new and old in a version of the kind."""
        if version in self.forms:
            return self.forms[version]
        current = self.request.version
        new = _in_version(self.kind, self.new, current, version) if self.new else self.new
        return new, _in_version(self.kind, self.old, current, version) if self.old else None

    @property
    def seen(self) -> Manifest:
        return self.new or self.old or {}


class Admission:
    """Runs mutating, then validating webhooks. Configurations count from the moment they exist."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._cleaner = Cleaner(state)
        self._client = WebhookClient(state.options)

    @property
    def client(self) -> WebhookClient:
        return self._client

    @property
    def active(self) -> bool:
        storage = self._state.storage
        return bool(len(storage.bucket(_MUTATING)) or len(storage.bucket(_VALIDATING)))

    async def close(self) -> None:
        await self._client.close()

    async def mutate(
        self, kind: Kind, request: Request, operation: str, new: Manifest, old: Manifest | None
    ) -> Manifest:
        """Return the object after all mutating webhooks. Raises StatusError where one denies."""
        call = Call(kind, request, operation, new, old)
        await self._convert(_MUTATING, call)
        hooks = self._matching(_MUTATING, call)
        states: dict[int, bytes] = {}
        for index, hook in enumerate(hooks):
            await self._mutate(hook, call)
            states[index] = orjson.dumps(call.new)
        last = orjson.dumps(call.new)
        for index, hook in enumerate(hooks):
            if hook.get("reinvocationPolicy") == "IfNeeded" and states[index] != last:
                await self._mutate(hook, call)
        return call.new

    async def validate(
        self, kind: Kind, request: Request, operation: str, new: Manifest, old: Manifest | None
    ) -> None:
        """Raise StatusError where a webhook denies; all are asked at once."""
        call = Call(kind, request, operation, new, old)
        await self._convert(_VALIDATING, call)
        hooks = self._matching(_VALIDATING, call)
        if not hooks:
            return
        asked = (self._ask(hook, call) for hook in hooks)
        results = await asyncio.gather(*asked, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _mutate(self, hook: Mapping[str, Any], call: Call) -> None:
        response = await self._ask(hook, call)
        patch = None if response is None else response.get("patch")
        if not patch or call.operation == "DELETE":
            return
        name = hook["name"]
        if response is not None and response.get("patchType") != "JSONPatch":
            raise internal(f'failed calling webhook "{name}": invalid patchType')
        try:
            version = _wanted_version(hook, call)
            operations = orjson.loads(base64.b64decode(patch))
            changed = json_patch(call.form(version)[0], operations)
        except (PatchRefused, ValueError) as error:
            raise internal(f'failed to apply the patch of webhook "{name}": {error}') from None
        self._cleaner.default(call.kind, version, changed)
        await self._take(call, changed, version)

    # -- versions --------------------------------------------------------------------------

    async def _convert(self, resource: str, call: Call) -> None:
        """Have the conversion webhook make the versions that hooks want and the request does not have."""
        call.forms.clear()
        if not converts(call.kind):
            return
        webhook = ConversionWebhook(self._client)
        for version in self._other_versions(resource, call):
            old = await webhook.form(call.kind, call.old, version) if call.old else None
            new = await webhook.form(call.kind, call.new, version) if call.new else call.new
            call.forms[version] = (new, old)

    def _other_versions(self, resource: str, call: Call) -> set[str]:
        return {
            version
            for record in self._state.storage.bucket(resource).scan()
            for hook in record.obj.get("webhooks") or ()
            for rule in hook.get("rules") or ()
            if (version := _version_for(rule, hook, call)) not in ("", call.request.version)
        }

    async def _take(self, call: Call, changed: Manifest, version: str) -> None:
        """Go on with what a hook made of the object, in the version that it was shown."""
        current = call.request.version
        if version not in call.forms:
            call.new = _in_version(call.kind, changed, version, current)
        else:
            webhook = ConversionWebhook(self._client)
            call.new = await webhook.form(call.kind, changed, current)
        await self._convert(_MUTATING, call)

    # -- which -----------------------------------------------------------------------------

    def _matching(self, resource: str, call: Call) -> list[Mapping[str, Any]]:
        if call.kind.group == _GROUP and call.kind.kind.endswith("WebhookConfiguration"):
            return []
        found: list[Mapping[str, Any]] = []
        for record in self._state.storage.bucket(resource).scan():
            for hook in record.obj.get("webhooks") or ():
                if self._matches(hook, call):
                    found.append(hook)  # noqa: PERF401 - the condition may raise
        return found

    def _matches(self, hook: Mapping[str, Any], call: Call) -> bool:
        if not any(_version_for(rule, hook, call) for rule in hook.get("rules") or ()):
            return False
        if not self._namespace_matches(hook.get("namespaceSelector") or {}, call):
            return False
        if not _object_matches(hook.get("objectSelector") or {}, call):
            return False
        try:
            return conditions_hold(hook, self._review(hook, call)["request"])
        except ConditionError as error:
            if hook.get("failurePolicy") == "Ignore":
                return False
            raise StatusError(403, "Forbidden", str(error)) from None

    def _namespace_matches(self, selector: Mapping[str, Any], call: Call) -> bool:
        if call.kind.resource == "namespaces":
            return selector_matches(selector, call.seen["metadata"].get("labels") or {})
        if not call.kind.namespaced:
            return True
        record = self._state.storage.bucket("namespaces").get("", call.request.namespace)
        return selector_matches(selector, {} if record is None else record.labels)

    # -- asking ----------------------------------------------------------------------------

    async def _ask(self, hook: Mapping[str, Any], call: Call) -> dict[str, Any] | None:
        """Return the response of an allowed request; None where a failure is ignored."""
        name = hook["name"]
        if call.request.dry_run and hook.get("sideEffects") not in _SAFE:
            raise bad_request(f'admission webhook "{name}" does not support dry run')
        review = self._review(hook, call)
        seconds = float(hook.get("timeoutSeconds") or 10)
        try:
            answer = await self._client.post(hook["clientConfig"], review, seconds)
            response: dict[str, Any] = answer["response"]
            if response.get("uid") != review["request"]["uid"]:
                raise CallError(
                    f'received invalid webhook response: expected response.uid="{review["request"]["uid"]}", '
                    f'got "{response.get("uid", "")}"'
                )
        except CallError as error:
            if hook.get("failurePolicy") == "Ignore":
                return None
            text = f'failed calling webhook "{name}": failed to call webhook: {error}'
            raise internal(text) from None
        call.request.warnings.extend(str(text) for text in response.get("warnings") or ())
        if not response.get("allowed"):
            raise _denied(name, response.get("status") or {})
        return response

    def _review(self, hook: Mapping[str, Any], call: Call) -> dict[str, Any]:
        kind, request = call.kind, call.request
        version = _wanted_version(hook, call)
        new, old = call.form(version)
        body: dict[str, Any] = {
            "uid": new_uid(),
            "kind": {"group": kind.group, "version": version, "kind": kind.kind},
            "resource": {"group": kind.group, "version": version, "resource": kind.plural},
            "requestKind": {"group": kind.group, "version": request.version, "kind": kind.kind},
            "requestResource": {
                "group": kind.group,
                "version": request.version,
                "resource": kind.plural,
            },
            "operation": call.operation,
            "userInfo": request.user.info(),
            "object": new or None,
            "oldObject": old,
            "dryRun": request.dry_run,
            "options": _options(request, call.operation),
        }
        if request.subresource:
            body["subResource"] = body["requestSubResource"] = request.subresource
        if request.subresource == "scale":
            _as_scale(body, call)
        if name := call.seen["metadata"].get("name"):
            body["name"] = name
        if kind.namespaced or kind.resource == "namespaces":
            body["namespace"] = request.namespace or name
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": body}


def _as_scale(body: dict[str, Any], call: Call) -> None:
    """Webhooks are shown the Scale, not the object that has it."""
    body["kind"] = body["requestKind"] = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    for name, obj in (("object", call.new), ("oldObject", call.old)):
        if obj is not None:
            body[name] = scale_view(call.kind, call.request.version, obj)


def _options(request: Request, operation: str) -> dict[str, Any]:
    options: dict[str, Any] = {"kind": _OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"}
    if operation == "DELETE":
        return options
    if request.dry_run:
        options["dryRun"] = ["All"]
    for name in ("fieldManager", "fieldValidation"):
        if given := request.query.get(name):
            options[name] = given
    return options


def _in_version(kind: Kind, obj: Manifest, current: str, wanted: str) -> Manifest:
    if current == wanted:
        return obj
    return conversion.from_storage(kind, conversion.to_storage(kind, obj, current), wanted)


def _wanted_version(hook: Mapping[str, Any], call: Call) -> str:
    """Return the version in which a hook that matches wants the object."""
    rules = hook.get("rules") or ()
    return next(v for v in (_version_for(rule, hook, call) for rule in rules) if v)


def _version_for(rule: Mapping[str, Any], hook: Mapping[str, Any], call: Call) -> str:
    """Return the version in which a rule wants the object; "" where it does not match."""
    kind, request = call.kind, call.request
    if not lists_value(rule.get("operations"), call.operation) or not lists_value(
        rule.get("apiGroups"), kind.group
    ):
        return ""
    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") is not kind.namespaced:
        return ""
    if not _resource_matches(rule.get("resources") or (), kind.plural, request.subresource):
        return ""
    versions = rule.get("apiVersions") or ()
    if lists_value(versions, request.version):
        return request.version
    if hook.get("matchPolicy") == "Exact":
        return ""
    return next((version for version in kind.versions if version in versions), "")


def _resource_matches(patterns: Iterable[str], plural: str, subresource: str) -> bool:
    for pattern in patterns:
        resource, _, sub = pattern.partition("/")
        if resource not in {"*", plural}:
            continue
        if sub in ("*", subresource):
            return True
    return False


def _object_matches(selector: Mapping[str, Any], call: Call) -> bool:
    if not selector:
        return True
    objects = [obj for obj in (call.new, call.old) if obj]
    return any(selector_matches(selector, obj["metadata"].get("labels") or {}) for obj in objects)


def _denied(name: str, status: dict[str, Any]) -> StatusError:
    said = f'admission webhook "{name}" denied the request'
    message, reason = status.get("message"), status.get("reason")
    if message or reason:
        text = f"{said}: {message or reason}"
    else:
        text = f"{said} without explanation"
    code = int(status.get("code") or 0)
    return StatusError(max(code, 400), reason or "", text, status.get("details"))


class ConditionError(Exception):
    """A condition that cannot be evaluated."""


def conditions_hold(hook: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether all conditions are true. A false one wins over one that fails, as upstream.

    Raises ConditionError.
    """
    failed = ""
    for condition in hook.get("matchConditions") or ():
        variables = {
            "request": request,
            "object": request.get("object"),
            "oldObject": request.get("oldObject"),
        }
        try:
            result = cel.evaluate(condition["expression"], variables)
        except (ValueError, RuntimeError, TypeError, KeyError) as error:
            failed = failed or f"match condition {condition.get('name')!r} failed: {error}"
            continue
        if result is False:
            return False
    if failed:
        raise ConditionError(failed)
    return True
