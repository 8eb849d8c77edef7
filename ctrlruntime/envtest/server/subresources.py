"""eviction, binding, finalize, token: subresources with bodies of their own; scale is in `scaling`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.selectors import selector_matches
from ctrlruntime.envtest.server.auth import Authenticator
from ctrlruntime.envtest.server.building import Build
from ctrlruntime.envtest.server.codec import body_as_json
from ctrlruntime.envtest.server.deletion import DeleteOptions, Remover
from ctrlruntime.envtest.server.discovery import subresources
from ctrlruntime.envtest.server.errors import (
    StatusError,
    bad_request,
    bad_value,
    conflict,
    invalid,
    method_not_allowed,
    not_found,
    too_many_requests,
    unknown_path,
)
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.reading import Reader
from ctrlruntime.envtest.server.request import Answer, Request
from ctrlruntime.envtest.server.scaling import Scaling
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record
from ctrlruntime.envtest.server.writing import Writer

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


class Subresources:
    """Answers everything below an object but its status."""

    def __init__(
        self,
        state: State,
        authenticator: Authenticator,
        reader: Reader,
        writer: Writer,
        remover: Remover,
        scaling: Scaling,
    ) -> None:
        self._state = state
        self._authenticator = authenticator
        self._reader = reader
        self._writer = writer
        self._remover = remover
        self._scaling = scaling

    async def answer(self, kind: Kind, request: Request) -> Answer:
        name = request.subresource
        if name not in subresources(kind, request.version):
            raise unknown_path()
        # A POST below an object is a create, whatever the URL's depth.
        if request.verb not in _ALLOWED.get(name, set()):
            raise method_not_allowed()
        match name:
            case "scale":
                return await self._scaling.answer(kind, request)
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
        self._remover.remove(
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
        await self._writer.write(kind, inner, Build(make))
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
        audiences = spec.get("audiences") or []
        token, expires = self._authenticator.issue(record, audiences, seconds)
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

        return await self._writer.write(kind, request, Build(make))


def _copy(live: Manifest | None) -> Manifest:
    """Return a copy to change: the write path compares it with what was there."""
    copy: Manifest = orjson.loads(orjson.dumps(live))
    return copy


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
