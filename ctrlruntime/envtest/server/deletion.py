"""delete and deletecollection: finalizers, grace, preconditions, propagation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server import hooks
from ctrlruntime.envtest.server.admission import Admission
from ctrlruntime.envtest.server.codec import body_as_json
from ctrlruntime.envtest.server.conversion_webhook import carrier
from ctrlruntime.envtest.server.errors import (
    StatusError,
    bad_request,
    conflict,
    forbidden,
    not_found,
)
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.reading import select, shard_info
from ctrlruntime.envtest.server.request import Answer, Request
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_PROTECTED: Final = frozenset({"default", "kube-public", "kube-system"})
_POLICIES: Final = ("Foreground", "Background", "Orphan")

# Kinds whose deletion answers the object instead of a Status.
_RETURNS_OBJECT: Final = frozenset(
    {
        "pods",
        "services",
        "serviceaccounts",
        "persistentvolumes",
        "persistentvolumeclaims",
        "podtemplates",
        "resourcequotas",
        "namespaces",
    }
)
# Kinds whose dependents are orphaned when nothing is asked, as upstream for old clients.
_ORPHAN_BY_DEFAULT: Final = frozenset({"jobs.batch", "replicationcontrollers"})


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    orphan: bool | None = None
    grace: int | None = None
    dry_run: bool = False

    @classmethod
    def of(cls, request: Request) -> DeleteOptions:
        """From the body; from the query only where there is no body, as upstream."""
        given = _read_body(request)
        if given is None:
            given = _query_options(request)
        _check_types(given)
        preconditions = given.get("preconditions") or {}
        if (dry := given.get("dryRun") or []) not in ([], ["All"]):
            shown = orjson.dumps(dry).decode()
            text = f'Unsupported value: {shown}: supported values: "All"'
            raise _invalid_options(text, "FieldValueNotSupported", "dryRun")
        policy, orphan = given.get("propagationPolicy") or "", given.get("orphanDependents")
        _check_policy(policy, orphan)
        return cls(
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            propagation=policy,
            orphan=orphan,
            grace=given.get("gracePeriodSeconds"),
            dry_run=given.get("dryRun") == ["All"],
        )


def _query_options(request: Request) -> dict[str, Any]:
    query = request.query
    given: dict[str, Any] = {"propagationPolicy": query.get("propagationPolicy")}
    if "gracePeriodSeconds" in query:
        given["gracePeriodSeconds"] = request.number("gracePeriodSeconds")
    if "orphanDependents" in query:
        given["orphanDependents"] = request.flag("orphanDependents")
    if request.dry_run:
        given["dryRun"] = ["All"]
    return given


def _read_body(request: Request) -> dict[str, Any] | None:
    if not request.body:
        return None
    try:
        body = orjson.loads(body_as_json(request))
    except orjson.JSONDecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(body, dict):
        raise bad_request("the body of a delete request must be DeleteOptions")
    if (given := body.get("kind")) not in {None, "", "DeleteOptions"}:
        version = body.get("apiVersion") or ""
        raise bad_request(
            f'no kind "{given}" is registered for version "{version}" in scheme '
            '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
        )
    return body


_TYPES: Final[dict[str, tuple[type, str]]] = {
    "gracePeriodSeconds": (int, "int64"),
    "orphanDependents": (bool, "bool"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "preconditions": (dict, "v1.Preconditions"),
    "dryRun": (list, "[]string"),
}


def _check_types(given: dict[str, Any]) -> None:
    for name, (wanted, go_type) in _TYPES.items():
        value = given.get(name)
        if value is None or type(value) is wanted:
            continue
        found = {str: "string", bool: "bool", list: "array", dict: "object"}.get(
            type(value), "number"
        )
        raise bad_request(
            f"json: cannot unmarshal {found} into Go struct field DeleteOptions.{name} of type "
            f"{go_type}"
        )


def _check_policy(policy: str, orphan: bool | None) -> None:
    if policy and orphan is not None:
        text = 'Invalid value: "{0}": orphanDependents and deletionPropagation cannot be both set'
        raise _invalid_options(text.format(policy), "FieldValueInvalid")
    if policy and policy not in _POLICIES:
        listed = ", ".join(f'"{item}"' for item in (*_POLICIES, "nil"))
        text = f'Unsupported value: "{policy}": supported values: {listed}'
        raise _invalid_options(text, "FieldValueNotSupported")


def _invalid_options(text: str, reason: str, field: str = "propagationPolicy") -> StatusError:
    cause = {"reason": reason, "message": text, "field": field}
    details = {"group": "meta.k8s.io", "kind": "DeleteOptions", "causes": [cause]}
    message = f'DeleteOptions.meta.k8s.io "" is invalid: {field}: {text}'
    return StatusError(422, "Invalid", message, details)


class Remover:
    """Removes objects for all who may: delete requests, evictions, the server's own controllers."""

    def __init__(self, state: State) -> None:
        self._state = state

    def remove(self, kind: Kind, record: Record, options: DeleteOptions) -> tuple[bool, Record]:
        """Delete, or mark for deletion what must wait. True if it is gone, and the last state."""
        obj = record.load()
        metadata = obj["metadata"]
        finalizers = _finalizers(kind, metadata.get("finalizers") or [], options)
        grace = _grace(kind, obj, options)
        waits = bool(finalizers) or grace > 0 or _namespace_waits(kind, obj)
        if not waits:
            if kind.resource != "pods":
                return self._drop(kind, record, options)
            self._mark(kind, obj, 0)
            return self._drop(kind, record, options, obj)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        self._mark(kind, obj, grace)
        if obj == record.obj:
            return False, record
        if options.dry_run:
            return False, Record(
                (record.namespace, record.name), obj, record.revision, record.epoch
            )
        changed = self._state.storage.update(
            self._state.bucket(kind), obj, record, record.epoch, carrier(kind, record)
        )
        hooks.after_update(self._state, kind, changed, record)
        return False, changed

    def _mark(self, kind: Kind, obj: Manifest, grace: int) -> None:
        metadata = obj["metadata"]
        known = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") is None:
            moment = self._state.options.clock() + timedelta(seconds=grace)
            metadata["deletionTimestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            metadata["deletionGracePeriodSeconds"] = grace
            if "generation" in metadata:
                metadata["generation"] += 1
        elif known is None or grace < known:
            metadata["deletionGracePeriodSeconds"] = grace
        if kind.kind == "Namespace" and not kind.group:
            metadata.pop("deletionGracePeriodSeconds", None)
            obj.setdefault("status", {})["phase"] = "Terminating"

    def _drop(
        self, kind: Kind, record: Record, options: DeleteOptions, last: Manifest | None = None
    ) -> tuple[bool, Record]:
        if options.dry_run:
            return True, record
        final = self._state.storage.delete(self._state.bucket(kind), record, last)
        hooks.after_delete(self._state, kind, final)
        return True, final

    def finish(self, kind: Kind, record: Record, last: Manifest) -> Record:
        """Return the deletion waits for nothing more."""
        final = self._state.storage.delete(self._state.bucket(kind), record, last)
        hooks.after_delete(self._state, kind, final)
        return final


class Deleter:
    """Answers delete and deletecollection."""

    def __init__(self, state: State, admission: Admission, remover: Remover) -> None:
        self._state = state
        self._admission = admission
        self._remover = remover

    async def delete(self, kind: Kind, request: Request) -> Answer:
        options = DeleteOptions.of(request)
        namespace = request.namespace if kind.namespaced else ""
        bucket = self._state.bucket(kind)
        record = bucket.get(namespace, request.name)
        if record is None:
            raise not_found(kind.group, kind.plural, request.name)
        _check_preconditions(kind, record, options)
        if kind.resource == "namespaces" and record.name in _PROTECTED:
            raise forbidden("", "namespaces", record.name, "this namespace may not be deleted")
        await self._admit(kind, request, record)
        record = bucket.get(namespace, request.name)
        if record is None:
            raise not_found(kind.group, kind.plural, request.name)
        gone, last = self._remover.remove(kind, record, options)
        if not gone or kind.resource in _RETURNS_OBJECT:
            body = self._state.encode(kind, last, request.version, request.form)
            return Answer(200, body)
        return Answer(200, _success(kind, last))

    async def _admit(self, kind: Kind, request: Request, record: Record) -> None:
        if not self._admission.active:
            return
        old = self._state.load(kind, record, request.version)
        await self._admission.mutate(kind, request, "DELETE", {}, old)
        await self._admission.validate(kind, request, "DELETE", {}, old)

    async def delete_collection(self, kind: Kind, request: Request) -> Answer:
        options = DeleteOptions.of(request)
        chosen = select(self._state, kind, request)
        bucket = self._state.bucket(kind)
        found = [r for r in bucket.scan(chosen.namespace) if chosen.matches(r.obj)]
        limit = max(0, request.number("limit"))
        shown: list[bytes] = []
        for record in found[: limit or None]:
            await self._admit(kind, request, record)
            current = bucket.get(record.namespace, record.name)
            if current is None:
                continue
            self._remover.remove(kind, current, options)
            shown.append(self._state.encode_item(kind, current, request.version, request.form))
        head = orjson.dumps(
            {
                "kind": kind.list_name,
                "apiVersion": kind.api_version(request.version),
                "metadata": {
                    "resourceVersion": str(self._state.storage.revision),
                    **shard_info(kind, request, chosen),
                },
            }
        )
        return Answer(200, head[:-1] + b',"items":[' + b",".join(shown) + b"]}")


def _namespace_waits(kind: Kind, obj: Manifest) -> bool:
    """Return whether a namespace waits: it is deleted by its second step, once its contents are gone."""
    if kind.kind != "Namespace" or kind.group:
        return False
    return bool((obj.get("spec") or {}).get("finalizers"))


def _finalizers(kind: Kind, present: list[str], options: DeleteOptions) -> list[str]:
    """Return the finalizers after the propagation policy had its say."""
    policy = options.propagation
    if options.orphan is not None:
        policy = "Orphan" if options.orphan else "Background"
    if not policy:
        if ORPHAN in present or FOREGROUND in present:
            return present
        policy = "Orphan" if kind.resource in _ORPHAN_BY_DEFAULT else "Background"
    kept = [item for item in present if item not in {ORPHAN, FOREGROUND}]
    if policy == "Orphan":
        return [*kept, ORPHAN]
    if policy == "Foreground":
        return [*kept, FOREGROUND]
    return kept


def _grace(kind: Kind, obj: Manifest, options: DeleteOptions) -> int:
    """Seconds a pod may take to stop; pods that never ran or have ended get none."""
    if kind.resource != "pods":
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    known = obj["metadata"].get("deletionGracePeriodSeconds")
    grace = options.grace
    if grace is None:
        grace = known if known is not None else spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    return max(0, int(grace))


def _check_preconditions(kind: Kind, record: Record, options: DeleteOptions) -> None:
    if options.uid and options.uid != record.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({record.uid}). The object might have been deleted and then recreated"
        )
        raise _precondition(kind, record, why)
    version = str(record.revision)
    if options.resource_version and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified"
        )
        raise _precondition(kind, record, why)


def _precondition(kind: Kind, record: Record, why: str) -> StatusError:
    return conflict(kind.group, kind.kind, record.name, why)


def _success(kind: Kind, record: Record) -> bytes:
    details: dict[str, Any] = {"name": record.name}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    details["uid"] = record.uid
    return orjson.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
    )
