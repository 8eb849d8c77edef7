"""The steps of a write, the same for create, update, patch and apply.

A write is built, prepared, tracked, admitted, completed, validated, converted and stored; what
follows from it comes after. The first step is in `building`, and of patches in `patching`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.clock import random_choice
from ctrlruntime.envtest.merge.apply import restore_times, track_update
from ctrlruntime.envtest.server import conversion, hooks, quotas, strategy
from ctrlruntime.envtest.server.admission import Admission
from ctrlruntime.envtest.server.conversion_webhook import ConversionWebhook, attach, converts
from ctrlruntime.envtest.server.errors import (
    StatusError,
    already_exists,
    being_deleted,
    forbidden,
    generate_name_exhausted,
    not_found,
    too_large,
)
from ctrlruntime.envtest.server.escalation import EscalationCheck
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.metadata import validate_name
from ctrlruntime.envtest.server.request import Answer, Request
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Bucket, Record

_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_TRIES: Final = 8
_NAME_LIMIT: Final = 58


@dataclass(slots=True)
class Write:
    """One write on its way through the steps, in the version of its request."""

    kind: Kind
    request: Request
    new: Manifest
    tracked: bool
    """Whether the field managers are recorded already."""
    record: Record | None = None
    """What is stored; None where the write creates."""
    live: Manifest | None = None
    """The same, in the version of the request."""
    unsent: Manifest = field(default_factory=dict)
    """Metadata that is kept although it was not sent, and so loses its owners."""
    stored: Manifest = field(default_factory=dict)
    forms: dict[str, Manifest] = field(default_factory=dict)
    """Where a webhook converts: the object in the other versions."""

    @property
    def operation(self) -> str:
        return "CREATE" if self.live is None else "UPDATE"


class Steps:
    """Takes a write from the object that was built to the one that is stored."""

    def __init__(self, state: State, admission: Admission, escalation: EscalationCheck) -> None:
        self._state = state
        self._admission = admission
        self._escalation = escalation

    async def run(self, write: Write) -> Answer | None:
        """Return the answer; None where another write came between. Raises StatusError."""
        self._prepare(write)
        self._track(write)
        await self._admit(write)
        self._complete(write)
        try:
            await self._validate(write)
            await self._convert(write)
            return self._store(write)
        except BaseException:
            if write.live is None and not write.request.dry_run:
                hooks.undo_create(self._state, write.kind, write.new)
            raise

    # -- prepare ---------------------------------------------------------------------------

    def _prepare(self, write: Write) -> None:
        """Name a new object; restore what an update may not touch."""
        kind, new, live, sub = write.kind, write.new, write.live, write.request.subresource
        if live is not None:
            write.unsent = strategy.unsent_deletion(new, live)
            strategy.prepare_update(kind, new, live, sub)
            hooks.before_update(self._state, kind, new, live, sub)
            return
        if kind.namespaced:
            self._check_namespace(kind, write.request, new)
        self._name(kind, new)
        strategy.tidy(new["metadata"])
        kind.builtin.before_tracking(new)

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
            suffix = "".join(random_choice(_SUFFIX) for _ in range(5))
            metadata["name"] = prefix[:_NAME_LIMIT] + suffix
            if bucket.get(namespace, metadata["name"]) is None:
                return

    # -- track -----------------------------------------------------------------------------

    def _track(self, write: Write) -> None:
        """Record the field managers: what the server and its webhooks add later has no owner."""
        if write.tracked:
            return
        state, kind, request = self._state, write.kind, write.request
        new, unsent = write.new, write.unsent
        if unsent:
            metadata = {key: item for key, item in new["metadata"].items() if key not in unsent}
            new = {**new, "metadata": metadata}
        write.new = track_update(
            write.live,
            new,
            manager=request.field_manager,
            schema=state.schema(kind, request.version),
            api_version=kind.api_version(request.version),
            now=state.now(),
            subresource=request.subresource,
            convert=state.owners_converter(kind),
        )
        write.new["metadata"].update(unsent)

    # -- admit -----------------------------------------------------------------------------

    async def _admit(self, write: Write) -> None:
        """Add what admission plugins add, check rights that are granted, ask mutating webhooks."""
        kind, request, live = write.kind, write.request, write.live
        if live is None:
            hooks.admit(self._state, kind, write.new)
        self._escalation.check(kind, request, write.new, live)
        if self._admission.active:
            write.new = await self._admission.mutate(
                kind, request, write.operation, write.new, live
            )

    # -- complete --------------------------------------------------------------------------

    def _complete(self, write: Write) -> None:
        """Fill in what only the server sets: system fields and status of a new object, allocations, counters."""
        state, kind, new, live = self._state, write.kind, write.new, write.live
        if live is not None:
            hooks.after_tracking(kind, new, live, write.request.subresource)
            return
        strategy.prepare_create(kind, new, state.now())
        hooks.before_create(state, kind, new, dry_run=write.request.dry_run)

    # -- validate --------------------------------------------------------------------------

    async def _validate(self, write: Write) -> None:
        """Check the object against schema and rules, then ask the validating webhooks, then quotas."""
        state, kind, request, new, live = (
            self._state,
            write.kind,
            write.request,
            write.new,
            write.live,
        )
        sub = "" if live is None else request.subresource
        strategy.validate(state, kind, request.version, new, live, sub)
        request.warnings.extend(kind.builtin.warnings(new, live))
        if self._admission.active:
            await self._admission.validate(kind, request, write.operation, new, live)
        if live is None:
            quotas.check(state, kind, new)
            self._check_absent(kind, request, new)

    def _check_absent(self, kind: Kind, request: Request, obj: Manifest) -> None:
        metadata = obj["metadata"]
        if metadata.get("resourceVersion") and request.verb == "create":
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        name = metadata["name"]
        present = self._state.bucket(kind).get(metadata.get("namespace", ""), name)
        if present is None:
            return
        if present.obj["metadata"].get("deletionTimestamp"):
            raise being_deleted(kind.group, kind.plural, name)
        if metadata.get("generateName") and not request.name:
            raise generate_name_exhausted(kind.group, kind.plural, name)
        raise already_exists(kind.group, kind.plural, name)

    # -- convert ---------------------------------------------------------------------------

    async def _convert(self, write: Write) -> None:
        """Make the stored form and, where a webhook converts, the forms in the other versions."""
        kind, request, obj = write.kind, write.request, write.new
        if write.live is not None:
            obj["metadata"]["resourceVersion"] = write.live["metadata"]["resourceVersion"]
        if not converts(kind):
            write.stored = self._to_storage(kind, request, obj)
            return
        webhook = ConversionWebhook(self._admission.client)
        write.stored = self._to_storage(kind, request, await webhook.storage_form(kind, obj))
        write.forms = await webhook.forms(kind, write.stored)
        if request.version in write.forms:
            write.forms[request.version] = {**obj, "metadata": dict(obj["metadata"])}

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

    # -- store, and after ------------------------------------------------------------------

    def _store(self, write: Write) -> Answer | None:
        kind, bucket = write.kind, self._state.bucket(write.kind)
        if write.record is None:
            return self._store_new(write, bucket)
        if bucket.get(write.record.namespace, write.record.name) is not write.record:
            return None
        return self._store_changed(kind, write, bucket, write.record)

    def _store_new(self, write: Write, bucket: Bucket) -> Answer:
        state, kind, request = self._state, write.kind, write.request
        if request.dry_run:
            return Answer(201, self._show(kind, request, write.stored))
        attach = self._attacher(kind, write.forms)
        record = state.storage.create(bucket, write.stored, kind.epoch, attach)
        hooks.after_create(state, kind, record)
        return Answer(201, state.encode(kind, record, request.version, request.form))

    def _store_changed(self, kind: Kind, write: Write, bucket: Bucket, record: Record) -> Answer:
        state, request, stored = self._state, write.request, write.stored
        if restore_times(write.live or {}, write.new) == write.live:
            return Answer(200, state.encode(kind, record, request.version, request.form))
        if request.dry_run:
            return Answer(200, self._show(kind, request, stored))
        if _finished(kind, stored):
            # Watchers are shown what was stored last, the sender what would have been.
            hooks.after_delete(state, kind, state.storage.delete(bucket, record))
            return Answer(200, self._show(kind, request, stored))
        attach = self._attacher(kind, write.forms)
        final = state.storage.update(bucket, stored, record, kind.epoch, attach)
        hooks.after_update(state, kind, final, record)
        return Answer(200, state.encode(kind, final, request.version, request.form))

    @staticmethod
    def _attacher(kind: Kind, forms: dict[str, Manifest]) -> Callable[[Record], None] | None:
        return (lambda record: attach(kind, record, forms)) if forms else None

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


def _finished(kind: Kind, obj: Manifest) -> bool:
    """Whether this update removed what the deletion was waiting for."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return kind.kind != "Namespace" or not (obj.get("spec") or {}).get("finalizers")
