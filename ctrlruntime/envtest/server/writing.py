"""create, update and patch: from a request to a stored object."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.merge.apply import restore_times, track_update
from ctrlruntime.envtest.server import conversion, hooks, quotas, strategy
from ctrlruntime.envtest.server.codec import decode_object
from ctrlruntime.envtest.server.conversion_webhook import ConversionWebhook, attach, converts
from ctrlruntime.envtest.server.errors import (
    StatusError,
    already_exists,
    bad_request,
    being_deleted,
    conflict,
    forbidden,
    generate_name_exhausted,
    not_found,
    too_large,
)
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.metadata import validate_name
from ctrlruntime.envtest.server.patching import Patch, Patcher, check_namespace
from ctrlruntime.envtest.server.request import Request
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record

_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_TRIES: Final = 8
_NAME_LIMIT: Final = 58
Make = Callable[[Manifest | None], Manifest]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a write answers: HTTP status and the object as bytes."""

    status: int
    body: bytes


class Writer:
    """Answers create, update and patch, on the objects themselves and on their status."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._patcher = Patcher(state)

    # -- verbs -----------------------------------------------------------------------------

    async def create(self, kind: Kind, request: Request) -> Answer:
        obj = self._decode(kind, request)
        self._place(kind, request, obj)
        return await self.insert(kind, request, obj)

    async def update(self, kind: Kind, request: Request) -> Answer:
        sent = self._decode(kind, request)
        self._place(kind, request, sent)
        name = sent["metadata"].get("name") or ""
        if name != request.name:
            raise _other_name(name, request.name)
        raw = orjson.dumps(sent)

        def make(live: Manifest | None) -> Manifest:
            del live
            copy: Manifest = orjson.loads(raw)
            return copy

        may_create = kind.create_on_update and not request.subresource
        return await self.modify(kind, request, make, may_create=may_create)

    async def patch(self, kind: Kind, request: Request) -> Answer:
        patch = self._patcher.prepare(kind, request)
        return await self.modify(
            kind, request, patch.make, may_create=patch.creates, tracked=patch.tracks
        )

    def prepare(self, kind: Kind, request: Request) -> Patch:
        """Return what a patch makes of an object; to be given to `modify`."""
        return self._patcher.prepare(kind, request)

    # -- reading what was sent -------------------------------------------------------------

    def _decode(self, kind: Kind, request: Request) -> Manifest:
        obj, repeated = decode_object(kind, request)
        self.clean(kind, request, obj, repeated)
        return obj

    def clean(self, kind: Kind, request: Request, obj: Manifest, repeated: list[str]) -> None:
        """Drop unknown fields (saying so as asked) and fill in defaults."""
        self._patcher.clean(kind, request, obj, repeated)

    @staticmethod
    def _place(kind: Kind, request: Request, obj: Manifest) -> None:
        """Check that the namespaces of the URL and of the object agree."""
        metadata = obj["metadata"]
        if not kind.namespaced:
            if metadata.get("namespace") and kind.kind != "Namespace":
                return
            metadata.pop("namespace", None)
            return
        check_namespace(request, obj)
        metadata["namespace"] = request.namespace

    # -- create ----------------------------------------------------------------------------

    async def insert(
        self, kind: Kind, request: Request, obj: Manifest, *, tracked: bool = False
    ) -> Answer:
        """Store a new object (in the request's version). `tracked`: managedFields are done."""
        state = self._state
        if kind.namespaced:
            self._check_namespace(kind, request, obj)
        self._name(kind, obj)
        strategy.tidy(obj["metadata"])
        hooks.before_tracking(kind, obj)
        if not tracked:
            obj = self._track(kind, request, None, obj)
        hooks.admit(state, kind, obj)
        if state.escalation is not None:
            state.escalation.check(kind, request, obj, None)
        obj = await self._admit(kind, request, "CREATE", obj, None)
        strategy.prepare_create(kind, obj, state.now())
        hooks.before_create(state, kind, obj, dry_run=request.dry_run)
        try:
            return await self._insert(kind, request, obj)
        except BaseException:
            if not request.dry_run:
                hooks.undo_create(state, kind, obj)
            raise

    async def _insert(self, kind: Kind, request: Request, obj: Manifest) -> Answer:
        """Return the last steps of a create: checks, and into the storage."""
        state = self._state
        strategy.validate(state, kind, request.version, obj, None, "")
        await self._approve(kind, request, "CREATE", obj, None)
        quotas.check(state, kind, obj)
        if obj["metadata"].get("resourceVersion") and request.verb == "create":
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        name = obj["metadata"]["name"]
        bucket = state.bucket(kind)
        present = bucket.get(obj["metadata"].get("namespace", ""), name)
        if present is not None:
            if present.obj["metadata"].get("deletionTimestamp"):
                raise being_deleted(kind.group, kind.plural, name)
            if obj["metadata"].get("generateName") and not request.name:
                raise generate_name_exhausted(kind.group, kind.plural, name)
            raise already_exists(kind.group, kind.plural, name)
        stored, forms = await self._in_all_versions(kind, request, obj)
        if request.dry_run:
            return Answer(201, self._show(kind, request, stored))
        record = state.storage.create(bucket, stored, kind.epoch, self._attacher(kind, forms))
        hooks.after_create(state, kind, record)
        return Answer(201, state.encode(kind, record, request.version, request.form))

    def _name(self, kind: Kind, obj: Manifest) -> None:
        """Make a name from generateName, tried until it is free."""
        metadata = obj["metadata"]
        prefix = metadata.get("generateName")
        if metadata.get("name") or not prefix:
            return
        bucket, namespace = self._state.bucket(kind), metadata.get("namespace", "")
        if validate_name(kind, prefix, "metadata.generateName", prefix=True):
            metadata["name"] = prefix + "x"
            return
        for _ in range(_TRIES):
            suffix = "".join(secrets.choice(_SUFFIX) for _ in range(5))
            metadata["name"] = prefix[:_NAME_LIMIT] + suffix
            if bucket.get(namespace, metadata["name"]) is None:
                return

    def _check_namespace(self, kind: Kind, request: Request, obj: Manifest) -> None:
        namespace = request.namespace
        record = self._state.storage.bucket("namespaces").get("", namespace)
        if record is None:
            raise not_found("", "namespaces", namespace)
        phase = (record.obj.get("status") or {}).get("phase")
        if phase != "Terminating" and not record.obj["metadata"].get("deletionTimestamp"):
            return
        name = obj["metadata"].get("name") or ""
        text = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(kind.group, kind.plural, name, text, causes=[cause])

    # -- update ----------------------------------------------------------------------------

    async def modify(
        self,
        kind: Kind,
        request: Request,
        make: Make,
        *,
        may_create: bool = False,
        tracked: bool = False,
    ) -> Answer:
        """Read, change, store; again where another write came between (unless the sender named a resourceVersion)."""
        bucket = self._state.bucket(kind)
        namespace = request.namespace if kind.namespaced else ""
        for _ in range(_TRIES):
            record = bucket.get(namespace, request.name)
            if record is None:
                if not may_create:
                    raise not_found(kind.group, kind.plural, request.name)
                return await self._create_by_update(kind, request, make, tracked=tracked)
            live = self._state.load(kind, record, request.version)
            new = make(live)
            if new is live:  # changed in place: what was is needed beside it
                live = self._state.load(kind, record, request.version)
            self._check_preconditions(kind, request, new, live)
            answer = await self._replace(kind, request, record, live, new, tracked=tracked)
            if answer is not None:
                return answer
        raise conflict(kind.group, kind.plural, request.name)

    async def _create_by_update(
        self, kind: Kind, request: Request, make: Make, *, tracked: bool
    ) -> Answer:
        request.require("create")
        obj = make(None)
        self._place(kind, request, obj)
        metadata = obj["metadata"]
        if metadata["name"] != request.name:
            raise _other_name(metadata["name"], request.name)
        version = metadata.get("resourceVersion") or ""
        if not request.dry_run:  # a dry run shows what was sent
            metadata.pop("resourceVersion", None)
        if uid := metadata.pop("uid", ""):
            raise conflict(
                kind.group,
                kind.plural,
                request.name,
                f"uid mismatch: the provided object specified uid {uid}, "
                "and no existing object was found",
            )
        if version and not tracked:
            raise not_found(kind.group, kind.plural, request.name)
        metadata["name"] = request.name
        return await self.insert(kind, request, obj, tracked=tracked)

    def _check_preconditions(
        self, kind: Kind, request: Request, new: Manifest, live: Manifest
    ) -> None:
        metadata, before = new["metadata"], live["metadata"]
        if request.verb == "patch":
            name = metadata.get("name")
            if name != before["name"]:
                raise _other_name(name or "", before["name"])
        uid = metadata.get("uid") or ""
        if uid and uid != before["uid"] and request.verb == "update":
            raise self._other_uid(kind, before, uid)
        version = metadata.get("resourceVersion") or ""
        if not version or version == "0":
            if (request.verb == "update" and not kind.unconditional_update) or kind.custom:
                raise strategy.must_have_version(kind, request.name)
        elif version != before["resourceVersion"]:
            if not version.isdigit():
                text = f'strconv.ParseUint: parsing "{version}": invalid syntax'
                raise StatusError(500, "", text)
            raise conflict(kind.group, kind.plural, request.name)
        metadata["resourceVersion"] = before["resourceVersion"]

    @staticmethod
    def _other_uid(kind: Kind, before: Manifest, uid: str) -> StatusError:
        key = f"/registry/{kind.resource}/{before.get('namespace', '')}/{before['name']}"
        why = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {before['uid']}"
        )
        return conflict(kind.group, kind.plural, before["name"], why)

    async def _replace(
        self,
        kind: Kind,
        request: Request,
        record: Record,
        live: Manifest,
        new: Manifest,
        *,
        tracked: bool,
    ) -> Answer | None:
        """None: another write came between."""
        state, sub = self._state, request.subresource
        unsent = strategy.unsent_deletion(new, live)
        strategy.prepare_update(kind, new, live, sub)
        hooks.before_update(state, kind, new, live, sub)
        if state.escalation is not None:
            state.escalation.check(kind, request, new, live)
        new = await self._admit(kind, request, "UPDATE", new, live)
        if not tracked:
            new = self._track(kind, request, live, new, unsent)
        hooks.after_tracking(kind, new, live, sub)
        strategy.validate(state, kind, request.version, new, live, sub)
        await self._approve(kind, request, "UPDATE", new, live)
        bucket = state.bucket(kind)
        new["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        stored, forms = await self._in_all_versions(kind, request, new)
        if bucket.get(record.namespace, record.name) is not record:
            return None
        if restore_times(live, new) == live:
            return Answer(200, state.encode(kind, record, request.version, request.form))
        if request.dry_run:
            return Answer(200, self._show(kind, request, stored))
        if _finished(kind, stored):
            # Watchers are shown what was stored last, the sender what would have been.
            hooks.after_delete(state, kind, state.storage.delete(bucket, record))
            return Answer(200, self._show(kind, request, stored))
        attach = self._attacher(kind, forms)
        final = state.storage.update(bucket, stored, record, kind.epoch, attach)
        hooks.after_update(state, kind, final, record)
        return Answer(200, state.encode(kind, final, request.version, request.form))

    # -- shared ----------------------------------------------------------------------------

    def _track(
        self,
        kind: Kind,
        request: Request,
        live: Manifest | None,
        new: Manifest,
        unsent: Manifest | None = None,
    ) -> Manifest:
        """`unsent`: metadata that is kept although it was not sent, and so loses its owners."""
        state = self._state
        if unsent:
            metadata = {key: item for key, item in new["metadata"].items() if key not in unsent}
            new = {**new, "metadata": metadata}
        made = track_update(
            live,
            new,
            manager=request.field_manager,
            schema=state.schema(kind, request.version),
            api_version=kind.api_version(request.version),
            now=state.now(),
            subresource=request.subresource,
            convert=self._patcher.converter(kind),
        )
        made["metadata"].update(unsent or {})
        return made

    async def _admit(
        self,
        kind: Kind,
        request: Request,
        operation: str,
        new: Manifest,
        old: Manifest | None,
    ) -> Manifest:
        admission = self._state.admission
        if admission is None or not admission.active:
            return new
        return await admission.mutate(kind, request, operation, new, old)

    async def _approve(
        self,
        kind: Kind,
        request: Request,
        operation: str,
        new: Manifest,
        old: Manifest | None,
    ) -> None:
        admission = self._state.admission
        if admission is not None and admission.active:
            await admission.validate(kind, request, operation, new, old)

    async def _in_all_versions(
        self, kind: Kind, request: Request, obj: Manifest
    ) -> tuple[Manifest, dict[str, Manifest]]:
        """Return the stored form and, where a webhook converts, the forms in the other versions."""
        admission = self._state.admission
        if admission is None or not converts(kind):
            return self._to_storage(kind, request, obj), {}
        webhook = ConversionWebhook(admission.client)
        stored = self._to_storage(kind, request, await webhook.storage_form(kind, obj))
        forms = await webhook.forms(kind, stored)
        if request.version in forms:
            forms[request.version] = {**obj, "metadata": dict(obj["metadata"])}
        return stored, forms

    @staticmethod
    def _attacher(kind: Kind, forms: dict[str, Manifest]) -> Callable[[Record], None] | None:
        return (lambda record: attach(kind, record, forms)) if forms else None

    def _to_storage(self, kind: Kind, request: Request, obj: Manifest) -> Manifest:
        stored = conversion.to_storage(kind, obj, request.version)
        # Kind and apiVersion lead, so that lists of built-in kinds can leave them out by slicing.
        lead = {"kind": stored["kind"], "apiVersion": stored["apiVersion"]}
        stored = {**lead, **stored, "metadata": dict(stored["metadata"])}
        if kind.custom and request.version != kind.storage_version:
            self._state.schema(kind, kind.storage_version).prune(stored)
        size = len(orjson.dumps(stored))
        if size > self._state.options.max_object:
            raise too_large(f"etcdserver: request is too large ({size} bytes)")
        return stored

    def _show(self, kind: Kind, request: Request, stored: Manifest) -> bytes:
        """Return the answer to a dry run."""
        metadata = stored["metadata"]
        version = metadata.get("resourceVersion")
        key = (metadata.get("namespace", ""), metadata["name"])
        record = Record(key, stored, int(version) if str(version).isdigit() else 0, kind.epoch)
        if version is None or record.revision == 0:
            del metadata["resourceVersion"]
            record.raw = orjson.dumps(stored)
        return self._state.encode(kind, record, request.version, request.form)


def _other_name(given: str, expected: str) -> StatusError:
    if not given:
        return bad_request("name must be provided")
    return bad_request(
        f"the name of the object ({given}) does not match the name on the URL ({expected})"
    )


def _finished(kind: Kind, obj: Manifest) -> bool:
    """Whether this update removed what the deletion was waiting for."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return kind.kind != "Namespace" or not (obj.get("spec") or {}).get("finalizers")
