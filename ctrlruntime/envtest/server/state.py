"""What all handlers share: storage, the kinds served, schemas, and the forms objects are shown in."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.schema.registry import SchemaRegistry, TypeSchema
from ctrlruntime.envtest.server import conversion, table
from ctrlruntime.envtest.server.builtin import builtin_kinds
from ctrlruntime.envtest.server.errors import PageNotFound, StatusError, unknown_path
from ctrlruntime.envtest.server.kinds import Catalog, Kind
from ctrlruntime.envtest.server.options import ServerOptions
from ctrlruntime.envtest.server.request import Form, Request
from ctrlruntime.envtest.server.snapshot import Snapshot
from ctrlruntime.envtest.server.storage import Bucket, Record, Storage


class State:
    """The server's memory. One instance per server; handlers and controllers are given it."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.storage = Storage(options.watch_history)
        self.catalog = Catalog(builtin_kinds())
        self.schemas = SchemaRegistry()
        self.allocations: dict[str, Any] = {}
        self._leads: dict[tuple[str, str, str], bytes] = {}
        self._compiled: dict[Any, TypeSchema] = {}
        self._now_text: tuple[int, str] = (0, "")

    def snapshot(self) -> Snapshot:
        """Return what the server holds now."""
        return Snapshot(
            revision=self.storage.revision,
            records={bucket.resource: tuple(bucket.scan()) for bucket in self.storage},
            kinds=tuple(kind for kind in self.catalog if kind.custom),
            compiled=dict(self._compiled),
            allocations=copy.deepcopy(self.allocations),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Hold what another server held; this one is empty."""
        self.storage.revision = self.storage.beginning = snapshot.revision
        for resource, records in snapshot.records.items():
            bucket = self.storage.bucket(resource)
            for record in records:
                bucket.put((record.namespace, record.name), record.copy())
        for kind in snapshot.kinds:
            self.catalog.put(kind)
        self._compiled.update(snapshot.compiled)
        self.allocations.update(copy.deepcopy(dict(snapshot.allocations)))

    def now(self) -> str:
        """RFC 3339 UTC, in seconds."""
        moment = self.options.clock()
        second = int(moment.timestamp())
        if second != self._now_text[0]:
            self._now_text = (second, moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
        return self._now_text[1]

    def kind(self, request: Request) -> Kind:
        assert request.group is not None  # noqa: S101 - the dispatcher sends API requests only
        kind = self.catalog.find(request.group, request.version, request.resource)
        if kind is None:
            raise self._unknown(request.group)
        return kind

    def _unknown(self, group: str) -> StatusError:
        """Built-in groups answer a Status, the others a plain page."""
        builtin = any(kind.group == group and not kind.custom for kind in self.catalog)
        return unknown_path() if builtin else PageNotFound()

    def bucket(self, kind: Kind) -> Bucket:
        return self.storage.bucket(kind.bucket)

    def schema(self, kind: Kind, version: str) -> TypeSchema:
        key = (kind.group, kind.kind, version, kind.epoch, kind.custom)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(kind, version)
        return found

    def _compile(self, kind: Kind, version: str) -> TypeSchema:
        if not kind.custom:
            return self.schemas.for_builtin(kind.gvk(version), status=kind.has_status)
        entry = kind.version_entry(version)
        status = "status" in (entry.get("subresources") or {})
        return self.schemas.for_crd_version(entry["schema"]["openAPIV3Schema"], status=status)

    def shown(self, kind: Kind, record: Record, version: str) -> Manifest:
        """Return the stored object as `version` shows it. Not to be changed."""
        if not kind.custom:
            if conversion.same_in_storage(kind, version):
                return record.obj
            return conversion.from_storage(kind, record.obj, version)
        api_version = kind.api_version(version)
        if record.epoch == kind.epoch and record.obj["apiVersion"] == api_version:
            return record.obj
        loaded: Manifest = orjson.loads(self.encode(kind, record, version))
        return loaded

    def encode(self, kind: Kind, record: Record, version: str, form: Form = "full") -> bytes:
        """One object as bytes."""
        if form == "partial":
            return record.form("partial", lambda: _partial(record.obj))
        if form == "table":
            shown = self.shown(kind, record, version)
            now, revision = self.options.clock(), str(record.revision)
            return orjson.dumps(table.render(kind, version, [shown], revision, now=now))
        if not kind.custom:
            if conversion.same_in_storage(kind, version):
                return record.raw
            return record.form((kind.group, version), self._converter(kind, record, version))
        if record.epoch == kind.epoch and record.obj["apiVersion"] == kind.api_version(version):
            return record.raw
        return record.form((kind.epoch, version), lambda: self._reread(kind, record, version))

    def encode_item(self, kind: Kind, record: Record, version: str, form: Form) -> bytes:
        """One object as an item of a list: those of built-in kinds do not repeat their type."""
        raw = self.encode(kind, record, version, form)
        if kind.custom or form != "full":
            return raw
        lead = self._leads.get((kind.group, kind.kind, version))
        if lead is None:
            named = {"kind": kind.kind, "apiVersion": kind.api_version(version)}
            lead = self._leads[kind.group, kind.kind, version] = orjson.dumps(named)[:-1] + b","
        return b"{" + raw[len(lead) :] if raw.startswith(lead) else raw

    def _converter(self, kind: Kind, record: Record, version: str) -> Callable[[], bytes]:
        return lambda: orjson.dumps(conversion.from_storage(kind, record.obj, version))

    def _reread(self, kind: Kind, record: Record, version: str) -> bytes:
        """Return a custom object under a later schema or another version: pruned and defaulted anew."""
        obj = record.load()
        obj["apiVersion"] = kind.api_version(version)
        schema = self.schema(kind, version)
        schema.prune(obj)
        schema.default(obj)
        return orjson.dumps(obj)

    def owners_converter(
        self, kind: Kind
    ) -> Callable[[Manifest, str], tuple[Manifest, TypeSchema] | None]:
        """Return what converts objects of the kind to another of its versions, for the field managers."""

        def convert(obj: Manifest, api_version: str) -> tuple[Manifest, TypeSchema] | None:
            version = api_version.rpartition("/")[2]
            if version not in kind.versions or kind.api_version(version) != api_version:
                return None
            current = str(obj.get("apiVersion", "")).rpartition("/")[2]
            stored = conversion.to_storage(kind, obj, current)
            shown = conversion.from_storage(kind, stored, version)
            return shown, self.schema(kind, version)

        return convert

    def load(self, kind: Kind, record: Record, version: str) -> Manifest:
        """Return a private copy of the stored object as `version` shows it."""
        loaded: Manifest = orjson.loads(self.encode(kind, record, version))
        return loaded


def _partial(obj: Manifest) -> bytes:
    return orjson.dumps(
        {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    )
