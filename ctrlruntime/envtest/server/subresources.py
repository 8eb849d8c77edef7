"""scale, eviction, binding, finalize, token: subresources with bodies of their own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.selectors import selector_matches
from ctrlruntime.envtest.merge.patches import json_patch, merge_patch
from ctrlruntime.envtest.server.codec import body_as_json
from ctrlruntime.envtest.server.deletion import DeleteOptions, Deleter
from ctrlruntime.envtest.server.discovery import subresources
from ctrlruntime.envtest.server.errors import (
    StatusError,
    bad_request,
    bad_value,
    conflict,
    forbidden,
    invalid,
    method_not_allowed,
    not_found,
    too_many_requests,
    unknown_path,
)
from ctrlruntime.envtest.server.kinds import Kind, ScalePaths
from ctrlruntime.envtest.server.patching import APPLY_YAML, JSON_PATCH, invalid_patch, read_applied
from ctrlruntime.envtest.server.reading import Reader
from ctrlruntime.envtest.server.request import Request
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record
from ctrlruntime.envtest.server.writing import Answer, Writer

_SCALE: Final = ("autoscaling/v1", "Scale")
_NO_CUSTOM_SCALE: Final = (
    "failed to convert new object (/{}; autoscaling/v1, Kind=Scale) to proper version: request to "
    "convert CR to an invalid group/version: autoscaling/v1"
)
_NOT_RUNNING: Final = frozenset({"Pending", "Succeeded", "Failed"})
_ALLOWED: Final = {
    "scale": {"get", "update", "patch"},
    "eviction": {"create"},
    "binding": {"create"},
    "token": {"create"},
    "finalize": {"update"},
    "ephemeralcontainers": {"get", "update", "patch"},
    "resize": {"get", "update", "patch"},
}
# Kinds whose missing objects are reported as missing scales.
_SCALES_MISSED: Final = frozenset({"deployments.apps", "replicasets.apps"})


class Subresources:
    """Answers everything below an object but its status."""

    def __init__(self, state: State, reader: Reader, writer: Writer, deleter: Deleter) -> None:
        self._state = state
        self._reader = reader
        self._writer = writer
        self._deleter = deleter

    async def answer(self, kind: Kind, request: Request) -> Answer:
        name = request.subresource
        if name not in subresources(kind, request.version):
            raise unknown_path()
        # A POST below an object is a create, whatever the URL's depth.
        if request.verb not in _ALLOWED.get(name, set()):
            raise method_not_allowed()
        match name:
            case "scale":
                return await self._scale(kind, request)
            case "eviction":
                return await self._evict(kind, request)
            case "binding":
                return await self._bind(kind, request)
            case "token":
                return self._token(kind, request)
            case "finalize":
                return await self._finalize(kind, request)
        if request.verb == "get":
            record = self._reader.get(kind, request)
            return Answer(200, self._state.encode(kind, record, request.version, request.form))
        verb = self._writer.update if request.verb == "update" else self._writer.patch
        return await verb(kind, replace(request, subresource=""))

    # -- scale -----------------------------------------------------------------------------

    async def _scale(self, kind: Kind, request: Request) -> Answer:
        paths = _scale_paths(kind, request.version)
        try:
            record = self._reader.get(kind, request)
        except StatusError as error:
            if request.verb == "get" and kind.resource in _SCALES_MISSED and error.code == 404:
                raise not_found(kind.group, f"{kind.plural}/scale", request.name) from None
            raise
        current = self._state.shown(kind, record, request.version)
        scale = _scale_of(kind, current, paths)
        if request.verb == "get":
            return Answer(200, orjson.dumps(scale))
        if request.verb == "patch" and request.content_type == APPLY_YAML:
            return await self._apply_scale(kind, request, paths)
        wanted = _wanted_scale(request, scale)
        version = (wanted.get("metadata") or {}).get("resourceVersion")
        if version and version != scale["metadata"]["resourceVersion"]:
            raise conflict(kind.group, kind.plural, request.name)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        try:
            _check_replicas(kind, request, replicas)
        except StatusError as error:
            raise invalid_patch(wanted, error) if request.verb == "patch" else error from None

        def make(live: Manifest | None) -> Manifest:
            scaled = _copy(live)
            _put(scaled, paths.spec, replicas)
            return scaled

        inner = replace(request, verb="patch", form="full", warnings=[])
        answer = await self._writer.modify(kind, inner, make)
        return Answer(200, orjson.dumps(_scale_of(kind, orjson.loads(answer.body), paths)))

    async def _apply_scale(self, kind: Kind, request: Request, paths: ScalePaths) -> Answer:
        """Return an apply of the one field, with owners as the scale shows them."""
        applied = read_applied(request)
        given = applied.get("apiVersion") or "", applied.get("kind") or ""
        if given != _SCALE:
            raise bad_request(f"invalid object type: {given[0] or '/'}, Kind={given[1]}")
        body: Manifest = {
            "apiVersion": kind.api_version(request.version),
            "kind": kind.kind,
            "metadata": {"name": request.name},
        }
        replicas = (applied.get("spec") or {}).get("replicas")
        if replicas is not None:
            _check_replicas(kind, request, replicas)
            _put(body, paths.spec, replicas)
        inner = replace(request, body=orjson.dumps(body), form="full", warnings=[])
        patch = self._writer.prepare(kind, inner)

        def make(live: Manifest | None) -> Manifest:
            try:
                made = patch.make(live)
            except StatusError as error:
                raise _as_scale(error, body["apiVersion"]) from None
            if kind.custom:
                raise StatusError(500, "", _NO_CUSTOM_SCALE.format(request.name))
            return made

        answer = await self._writer.modify(kind, inner, make, tracked=True)
        return Answer(200, orjson.dumps(_scale_of(kind, orjson.loads(answer.body), paths)))

    # -- pods ------------------------------------------------------------------------------

    async def _evict(self, kind: Kind, request: Request) -> Answer:
        record = self._reader.get(kind, request)
        body = orjson.loads(body_as_json(request) or b"{}")
        options = body.get("deleteOptions") or {}
        preconditions = options.get("preconditions") or {}
        budgets = self._budgets(record)
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise StatusError(500, "InternalError", text)
        dry = request.dry_run or options.get("dryRun") == ["All"]
        if budgets and not _ignores_budgets(record.obj):
            self._spend(budgets[0], record, dry=dry)
        self._deleter.remove(
            kind,
            record,
            DeleteOptions(
                uid=preconditions.get("uid") or "",
                grace=options.get("gracePeriodSeconds"),
                dry_run=dry,
            ),
        )
        return Answer(201, _status_success())

    def _budgets(self, pod: Record) -> list[Record]:
        bucket = self._state.storage.bucket("poddisruptionbudgets.policy")
        return [
            record
            for record in bucket.scan(pod.namespace)
            if (selector := (record.obj.get("spec") or {}).get("selector")) is not None
            and selector_matches(selector, pod.labels)
        ]

    def _spend(self, budget: Record, pod: Record, *, dry: bool) -> None:
        obj = budget.load()
        status = obj.setdefault("status", {})
        if (status.get("observedGeneration") or 0) < obj["metadata"].get("generation", 0):
            raise _budget_refusal(
                f"The disruption budget {budget.name} is still being processed by the server.", 10
            )
        if (status.get("disruptionsAllowed") or 0) < 1:
            healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            text = f"The disruption budget {budget.name} needs {desired} healthy pods and has {healthy} currently"
            raise _budget_refusal(text, 0)
        if dry:
            return
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[pod.name] = self._state.now()
        bucket = self._state.storage.bucket("poddisruptionbudgets.policy")
        self._state.storage.update(bucket, obj, budget)

    async def _bind(self, kind: Kind, request: Request) -> Answer:
        binding = orjson.loads(body_as_json(request) or b"{}")
        node = (binding.get("target") or {}).get("name")
        if not node:
            raise bad_request("target.name is required")
        now = self._state.now()

        def make(live: Manifest | None) -> Manifest:
            live = _copy(live)
            if bound := live["spec"].get("nodeName"):
                why = f'pod {request.name} is already assigned to node "{bound}"'
                raise conflict("", "pods/binding", request.name, why)
            live["spec"]["nodeName"] = node
            conditions = live.setdefault("status", {}).setdefault("conditions", [])
            condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
            conditions[:] = [c for c in conditions if c.get("type") != "PodScheduled"]
            conditions.append({**condition, "lastTransitionTime": now})
            return live

        inner = replace(request, verb="patch", subresource="binding", form="full")
        await self._writer.modify(kind, inner, make)
        return Answer(201, _status_success())

    # -- service accounts ------------------------------------------------------------------

    def _token(self, kind: Kind, request: Request) -> Answer:
        body = orjson.loads(body_as_json(request) or b"{}")
        record = self._state.bucket(kind).get(request.namespace, request.name)
        if record is None:
            raise not_found("", "serviceaccounts", request.name)
        spec = body.get("spec") or {}
        seconds = spec.get("expirationSeconds") or 3600
        if seconds < 600:
            error = bad_value(
                "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
            )
            raise invalid("authentication.k8s.io", "TokenRequest", "", [error])
        authenticator = self._state.tokens
        if authenticator is None:
            raise forbidden("", "serviceaccounts", request.name, "tokens are not issued")
        audiences = spec.get("audiences") or []
        token, expires = authenticator.issue(record, audiences, seconds)
        moment = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        answer = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": record.name,
                "namespace": record.namespace,
                "creationTimestamp": self._state.now(),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": moment},
        }
        return Answer(201, orjson.dumps(answer))

    # -- namespaces ------------------------------------------------------------------------

    async def _finalize(self, kind: Kind, request: Request) -> Answer:
        sent = orjson.loads(body_as_json(request) or b"{}")
        wanted = (sent.get("spec") or {}).get("finalizers") or []

        def make(live: Manifest | None) -> Manifest:
            live = _copy(live)
            live["spec"] = {**(live.get("spec") or {}), "finalizers": wanted}
            return live

        return await self._writer.modify(kind, request, make)


def _as_scale(error: StatusError, api_version: str) -> StatusError:
    """Conflicts name the version of Scale."""
    text = orjson.dumps([error.message, error.details]).decode()
    text = text.replace(f" using {api_version}", f" using {_SCALE[0]}")
    message, details = orjson.loads(text)
    return StatusError(error.code, error.reason, message, details)


def _copy(live: Manifest | None) -> Manifest:
    """Return a copy to change: the write path compares it with what was there."""
    copy: Manifest = orjson.loads(orjson.dumps(live))
    return copy


def scale_view(kind: Kind, version: str, obj: Manifest) -> Manifest:
    """Return the object as its scale subresource shows it."""
    return _scale_of(kind, obj, _scale_paths(kind, version))


def _scale_paths(kind: Kind, version: str) -> ScalePaths:
    if kind.custom:
        scale = kind.version_entry(version)["subresources"]["scale"]
        return ScalePaths(
            scale["specReplicasPath"].lstrip("."),
            scale["statusReplicasPath"].lstrip("."),
            (scale.get("labelSelectorPath") or "").lstrip("."),
        )
    return kind.scale or ScalePaths()


def _scale_of(kind: Kind, obj: Manifest, paths: ScalePaths) -> Manifest:
    metadata = obj["metadata"]
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": _get(obj, paths.status) or 0}
    selector = _get(obj, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        selector = selector_text(kind, selector)
    if selector:
        status["selector"] = selector
    replicas = _get(obj, paths.spec)
    if replicas is None and kind.custom:
        raise StatusError(
            500,
            "InternalError",
            f'Internal error occurred: the spec replicas field ".{paths.spec}" does not exist',
        )
    spec: dict[str, Any] = {"replicas": replicas} if replicas else {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": spec,
        "status": status,
    }


def selector_text(kind: Kind, selector: Manifest) -> str:
    """Return a label selector as the text that a list request takes."""
    if kind.kind == "ReplicationController":
        selector = {"matchLabels": selector}
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for item in selector.get("matchExpressions") or ():
        key, values = item["key"], ",".join(sorted(item.get("values") or ()))
        shown = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(shown[item["operator"]])
    return ",".join(sorted(parts))


def _wanted_scale(request: Request, scale: Manifest) -> Manifest:
    body = orjson.loads(body_as_json(request) if request.verb == "update" else request.body)
    if request.verb == "update":
        given = body.get("kind") or "Scale"
        if given != "Scale":
            raise bad_request(
                f'{given} in version "v1" cannot be handled as a Scale: converting (v1.{given}) to '
                "(autoscaling.Scale): unknown conversion"
            )
        return dict(body)
    patched = (
        json_patch(scale, body) if request.content_type == JSON_PATCH else merge_patch(scale, body)
    )
    return dict(patched)


def _check_replicas(kind: Kind, request: Request, replicas: Any) -> None:
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise bad_request(
            'Scale in version "v1" cannot be handled as a Scale: spec.replicas must be an integer'
        )
    if not -(2**31) <= replicas < 2**31:
        raise bad_request(
            f'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal number {replicas} '
            "into Go struct field ScaleSpec.spec.replicas of type int32"
        )
    if replicas < 0 and kind.custom:
        error = bad_value(".spec.replicas", replicas, "should be a non-negative integer")
        raise invalid(kind.group, kind.kind, request.name, [error])
    if replicas < 0:
        error = bad_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", request.name, [error])


def _get(obj: Manifest, path: str) -> Any:
    node: Any = obj
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def _put(obj: Manifest, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    node = obj
    for part in parents:
        node = node.setdefault(part, {})
    node[last] = value


def _ignores_budgets(pod: Manifest) -> bool:
    """Whether the Pod counts as no disruption: it does not run yet, has ended or is being deleted."""
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    return phase in _NOT_RUNNING or bool(pod["metadata"].get("deletionTimestamp"))


def _budget_refusal(text: str, retry_after: int) -> StatusError:
    said = "Cannot evict pod as it would violate the pod's disruption budget."
    error = too_many_requests(said, retry_after)
    error.details = {
        **(error.details or {}),
        "causes": [{"reason": "DisruptionBudget", "message": text}],
    }
    return error


def _status_success() -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return orjson.dumps(body)
