"""What the store keeps of one object: typed metadata, everything else as the bytes the server sent.

An entry of a Deployment costs about 6 KiB where a dict costs 19, and reading decodes on the spot, so
every reader gets a copy of its own, and the cache cannot be changed from outside.
"""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic
from zlib import crc32

import msgspec
import orjson
from typing_extensions import TypeVar

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.intake.json_documents import is_deeper
from ctrlruntime.intake.limits import OBJECT_DEPTH, Malformed
from ctrlruntime.intake.shallow import split_members, split_members_or_fail
from ctrlruntime.json import Json

if TYPE_CHECKING:
    from pydantic_core import ValidationError

    from ctrlruntime.api.resource import Resource

Manifest = dict[str, Any]
Key = tuple[str, str]
"""Namespace ("" for a cluster-scoped object) and name."""

ResourceT = TypeVar("ResourceT", bound="Resource[Any, Any]")
KindT = TypeVar("KindT", bound="Resource[Any, Any]", default=Any)
"""The class of the objects; Any for a kind that is named by a GVK or a mapping."""

_INTERN_LIMIT = 64  # longer label values and uids are nearly always unique


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class _ManagedFields(msgspec.Struct, gc=False, rename="camel"):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields_v1: msgspec.Raw = msgspec.Raw()


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None
    generate_name: str | None = None
    self_link: str | None = None
    deletion_grace_period_seconds: int | None = None


class Identity(msgspec.Struct, gc=False, rename="camel"):
    """Which object a document is, and in which state."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _TrackedMetadata(_Metadata, gc=False, rename="camel"):
    managed_fields: list[_ManagedFields] | None = None


class Entry(msgspec.Struct, Generic[KindT], gc=False):
    """One object of the cache. Treat it as read-only: other readers hold the same entry.

    ``Entry[Website]`` is an entry of that kind, as index, map and predicate functions receive it.

    ``fields`` holds every top-level field but ``apiVersion``, ``kind`` and ``metadata`` as undecoded
    JSON; it is empty in a metadata-only informer. ``managedFields`` are dropped on arrival.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    labels: dict[str, str]
    annotations: dict[str, str]
    owners: tuple[Owner, ...]
    finalizers: tuple[str, ...]
    deletion_timestamp: str | None
    creation_timestamp: str
    fields: dict[str, msgspec.Raw]
    owned: bytes | None = None
    """``fieldsV1`` of the tracked manager's entries, owner uids replaced by ``*``; None if it owns nothing."""
    rare: dict[str, Any] | None = None
    """``generateName``, ``selfLink`` and ``deletionGracePeriodSeconds``, where set."""
    size: int = 0
    """Bytes of JSON kept, not counting the metadata."""

    def __repr__(self) -> str:
        """Short, and without contents: entries of Secrets appear in tracebacks too."""
        return (
            f"<{self.kind} {self.namespace}/{self.name} uid={self.uid} at {self.resource_version}>"
        )

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind.parse(self.api_version, self.kind)

    @property
    def controller(self) -> Owner | None:
        """The owner reference marked as controller."""
        return next((owner for owner in self.owners if owner.controller), None)

    def field(self, name: str) -> Json:
        """One top-level field, decoded; None if the object has none of that name.

        Raises pydantic's ValidationError for one that cannot be read.
        """
        raw = self.fields.get(name)
        try:
            return None if raw is None else orjson.loads(memoryview(raw))
        except orjson.JSONDecodeError as error:
            raise self._unreadable(name, error) from None

    def metadata(self) -> Manifest:
        """Return the metadata as the server spells it, a fresh dict, without ``managedFields``."""
        metadata: Manifest = {"name": self.name}
        if self.namespace:
            metadata["namespace"] = self.namespace
        metadata["uid"] = self.uid
        metadata["resourceVersion"] = self.resource_version
        if self.generation:
            metadata["generation"] = self.generation
        if self.creation_timestamp:
            metadata["creationTimestamp"] = self.creation_timestamp
        if self.deletion_timestamp is not None:
            metadata["deletionTimestamp"] = self.deletion_timestamp
        if self.labels:
            metadata["labels"] = dict(self.labels)
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        if self.owners:
            metadata["ownerReferences"] = [_owner_manifest(owner) for owner in self.owners]
        if self.finalizers:
            metadata["finalizers"] = list(self.finalizers)
        if self.rare:
            metadata.update(self.rare)
        return metadata

    def decode(self) -> Manifest:
        """Return the whole object as a fresh dict, the caller's own. Raises as `field` does."""
        manifest: Manifest = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": self.metadata(),
        }
        name = ""
        try:
            for name, raw in self.fields.items():
                manifest[name] = orjson.loads(memoryview(raw))
        except orjson.JSONDecodeError as error:
            raise self._unreadable(name, error) from None
        return manifest

    def readable(self) -> Manifest:
        """Return the same without the fields that cannot be read."""
        good = {name: raw for name, raw in self.fields.items() if _is_readable(raw)}
        return msgspec.structs.replace(self, fields=good).decode()

    def _unreadable(self, name: str, error: orjson.JSONDecodeError) -> "ValidationError":
        return unreadable_field(self, name, error.msg)

    def typed(self, cls: type[ResourceT]) -> ResourceT:
        """Return the object as one of our own kinds, a fresh instance; pydantic's ValidationError if it does not fit."""
        return cls.from_manifest(self.decode())


def unreadable_field(entry: Entry, name: str, fault: str) -> "ValidationError":
    """Return the error of a field that cannot be read: an object of which that is so is invalid, never absent."""
    from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

    raw = bytes(memoryview(entry.fields[name]))
    if raw.startswith(_MARK):
        fault = raw[len(_MARK) :].partition(b";")[0].decode()
    if entry.deletion_timestamp is not None and entry.finalizers:
        fault += "; it is being deleted, and its finalizers wait until it can be read"
    detail = InitErrorDetails(
        type=PydanticCustomError(_UNREADABLE, "{fault}", {"fault": fault}), loc=(name,), input=None
    )
    return ValidationError.from_exception_data(entry.kind, [detail])


def is_unreadable(error: BaseException) -> bool:
    """Whether the error is that of a field that cannot be read, not of one that does not fit its kind."""
    from pydantic_core import ValidationError

    return isinstance(error, ValidationError) and any(
        item["type"] == _UNREADABLE for item in error.errors(include_input=False, include_url=False)
    )


_UNREADABLE: Final = "unreadable"
_MARK: Final = b"!"
"""What the bytes of a field begin with that is not kept: no JSON does, so reading it is an error."""


def _is_readable(raw: msgspec.Raw) -> bool:
    try:
        orjson.loads(memoryview(raw))
    except orjson.JSONDecodeError:
        return False
    return True


def _marked(fault: str, raw: bytes) -> msgspec.Raw:
    """Return what is kept of a field that cannot be read: the fault, and a digest that shows changes."""
    return msgspec.Raw(_MARK + f"{fault};{crc32(raw):08x}".encode())


_SMALL: Final = 2 * OBJECT_DEPTH  # bytes: fewer cannot be nested too deep
_TOO_DEEP: Final = (
    f"nested more than {OBJECT_DEPTH} levels deep: remove levels of mappings and lists"
)

Document = dict[str, msgspec.Raw]
"""An object split into its top-level fields, still sharing the memory it came in."""

_document_decoder: msgspec.json.Decoder[Document] = msgspec.json.Decoder(Document)
_metadata_decoder = msgspec.json.Decoder(_Metadata)
_identity_decoder = msgspec.json.Decoder(Identity)
_tracked_decoder = msgspec.json.Decoder(_TrackedMetadata)


def identity_of(document: Document) -> Identity | None:
    """Return which object it is; None where that cannot be read."""
    try:
        return _identity_decoder.decode(document["metadata"])
    except (KeyError, msgspec.DecodeError, RecursionError):
        return None


def split(body: bytes) -> Document:
    """Raise msgspec.DecodeError when the bytes are not an object."""
    return _split(body)


def _split(body: bytes | memoryview | msgspec.Raw) -> Document:
    try:
        return _document_decoder.decode(body)
    except (RecursionError, msgspec.DecodeError) as error:
        try:
            return split_carefully(bytes(memoryview(body)))
        except Malformed as fault:
            raise (
                error if isinstance(error, msgspec.DecodeError) else msgspec.DecodeError(str(fault))
            ) from None


def split_carefully(body: bytes) -> Document:
    """Return the same for an object that the decoder cannot pass over, as one nested too deep. Raises Malformed."""
    return {name: msgspec.Raw(raw) for name, raw in split_members(body).items()}


def _readable_metadata(raw: msgspec.Raw) -> tuple[_TrackedMetadata, str]:
    """Return what can be read of metadata that cannot be decoded as a whole, and what cannot.

    ``managedFields`` are as deep as the object, and left out. Raises ValidationError for one without a name.
    """
    good: dict[str, bytes] = {}
    bad: list[str] = []
    for name, value in split_members_or_fail(bytes(memoryview(raw))).items():
        if name == "managedFields":
            continue
        try:
            _metadata_decoder.decode(_joined({name: value}))
        except (msgspec.DecodeError, RecursionError):
            bad.append(name)
        else:
            good[name] = value
    if "name" not in good:
        raise msgspec.ValidationError("Object without a name")
    faults = f"metadata.{', '.join(bad)} cannot be read" if bad else ""
    return _tracked_decoder.decode(_joined(good)), faults


def _joined(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(orjson.dumps(name) + b":" + raw for name, raw in members.items()) + b"}"


class EntryDecoder:
    """Turns one object's JSON into an :class:`Entry` that owns its bytes.

    ``track_manager`` names the field manager whose owned fields are kept as ``Entry.owned``;
    ``metadata_only`` drops everything but the metadata, whatever the server sent.
    """

    def __init__(
        self,
        gvk: GroupVersionKind,
        *,
        metadata_only: bool = False,
        track_manager: str | None = None,
        on_unreadable: Callable[[Entry, str], None] | None = None,
    ) -> None:
        self.gvk = gvk
        self._on_unreadable = on_unreadable
        self.metadata_only = metadata_only
        self.track_manager = track_manager
        self._api_version = sys.intern(gvk.api_version)
        self._kind = sys.intern(gvk.kind)
        self._owned: dict[bytes, bytes] = {}

    def decode(self, body: bytes | memoryview | msgspec.Raw) -> Entry:
        """Raise msgspec.DecodeError (a ValueError) when the bytes are not an object with metadata."""
        return self.take(_split(body))

    def take(self, document: Document) -> Entry:
        """Like `decode`, of an object that has been split already. The document is used up."""
        metadata_raw = document.pop("metadata", None)
        if metadata_raw is None:
            raise msgspec.ValidationError("Object without metadata")
        owned: bytes | None = None
        metadata: _Metadata
        fault = ""
        try:
            if self.track_manager is None:
                metadata = _metadata_decoder.decode(metadata_raw)
            else:
                tracked = _tracked_decoder.decode(metadata_raw)
                owned = self._owned_by_manager(tracked.managed_fields)
                metadata = tracked
        except (RecursionError, msgspec.DecodeError):
            metadata, fault = _readable_metadata(metadata_raw)
        document.pop("apiVersion", None)
        document.pop("kind", None)
        if self.metadata_only:
            document = {}
        if fault:
            document = {name: _marked(fault, raw) for name, raw in document.items()}
        entry = self._entry(metadata, document, owned)
        if fault and self._on_unreadable is not None:
            self._on_unreadable(entry, fault)
        return entry

    def decode_manifest(self, manifest: Manifest) -> Entry:
        return self.decode(orjson.dumps(manifest))

    def _entry(self, metadata: _Metadata, document: Document, owned: bytes | None) -> Entry:
        size = 0
        deep = None
        for name, raw in document.items():
            length = len(raw)
            size += length
            if length > _SMALL and is_deeper(whole := bytes(memoryview(raw)), OBJECT_DEPTH):
                document[name] = _marked(_TOO_DEEP, whole)
                deep = name
            else:
                document[name] = raw.copy()
        # By position: it is twice as fast as by name, and this runs for every event.
        entry: Entry = Entry(
            self._api_version,
            self._kind,
            sys.intern(metadata.namespace),
            sys.intern(metadata.name),
            metadata.uid,
            metadata.resource_version,
            metadata.generation,
            _interned(metadata.labels) if metadata.labels else {},
            _interned_keys(metadata.annotations) if metadata.annotations else {},
            _interned_owners(metadata.owner_references) if metadata.owner_references else (),
            _interned_all(metadata.finalizers) if metadata.finalizers else (),
            metadata.deletion_timestamp,
            metadata.creation_timestamp or "",
            document,
            owned,
            _rare(metadata),
            size,
        )
        if deep is not None and self._on_unreadable is not None:
            self._on_unreadable(entry, f"{deep}: {_TOO_DEEP}")
        return entry

    def _owned_by_manager(self, managed: list[_ManagedFields] | None) -> bytes | None:
        mine = [
            item
            for item in managed or ()
            if item.manager == self.track_manager and not item.subresource
        ]
        if not mine:
            return None
        first, *others = [normalise_owned(bytes(memoryview(item.fields_v1))) for item in mine]
        for (
            other
        ) in others:  # what was written by patch is in an entry of its own beside the applies
            first = _united(first, other)
        return self._share(first)

    def _share(self, owned: bytes) -> bytes | None:
        if owned not in self._owned and is_deeper(owned, 2 * OBJECT_DEPTH):
            return None
        if len(self._owned) > 4096:  # shapes are few; a flood of distinct ones must not pile up
            self._owned.clear()
        return self._owned.setdefault(owned, owned)


def _united(first: bytes, second: bytes) -> bytes:
    """Return the fields of two ``fieldsV1`` documents."""
    found = orjson.loads(first)
    _add_fields(found, orjson.loads(second))
    return orjson.dumps(found, option=orjson.OPT_SORT_KEYS)


def _add_fields(fields: dict[str, Any], more: dict[str, Any]) -> None:
    for name, below in more.items():
        if name in fields:
            _add_fields(fields[name], below)
        else:
            fields[name] = below


_OWNER_UID = rb'"k:{\"uid\":\"'
_OWNER_FIELD = b'"f:ownerReferences"'


def normalise_owned(fields_v1: bytes) -> bytes:
    """``fieldsV1`` with the uid in owner-reference keys replaced by ``*``.

    Objects rendered from one template then share one value however many owners there are.
    """
    if _OWNER_FIELD not in fields_v1:
        return fields_v1
    first, *others = fields_v1.split(_OWNER_UID)
    for index, other in enumerate(others):
        _, _, rest = other.partition(rb"\"")
        if rest.startswith(b'}"'):  # a key of the uid alone
            others[index] = rb"*\"" + rest
    return _OWNER_UID.join([first, *others])


def owner_uids(entry: Entry) -> Iterable[str]:
    """Return the UIDs of the owners, as an index function."""
    return [owner.uid for owner in entry.owners]


def label_value(label: str) -> Callable[[Entry], Iterable[str]]:
    """Return an index function: the value of one label, nothing where it is absent."""

    def values(entry: Entry) -> Iterable[str]:
        value = entry.labels.get(label)
        return () if value is None else (value,)

    return values


def annotation_value(annotation: str) -> Callable[[Entry], Iterable[str]]:
    """Return an index function: the value of one annotation, nothing where it is absent."""

    def values(entry: Entry) -> Iterable[str]:
        value = entry.annotations.get(annotation)
        return () if value is None else (value,)

    return values


def _owner_manifest(owner: Owner) -> Manifest:
    reference: Manifest = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller is not None:
        reference["controller"] = owner.controller
    if owner.block_owner_deletion is not None:
        reference["blockOwnerDeletion"] = owner.block_owner_deletion
    return reference


def _interned(labels: dict[str, str]) -> dict[str, str]:
    intern = sys.intern
    return {
        intern(key): intern(value) if len(value) <= _INTERN_LIMIT else value
        for key, value in labels.items()
    }


def _interned_keys(annotations: dict[str, str]) -> dict[str, str]:
    return {sys.intern(key): value for key, value in annotations.items()}


def _interned_all(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(sys.intern, values))


def _interned_owners(owners: tuple[Owner, ...]) -> tuple[Owner, ...]:
    intern = sys.intern
    return tuple(
        [
            Owner(
                intern(owner.api_version),
                intern(owner.kind),
                intern(owner.name),
                intern(owner.uid),
                owner.controller,
                owner.block_owner_deletion,
            )
            for owner in owners
        ]
    )


def _rare(metadata: _Metadata) -> dict[str, Any] | None:
    if (
        metadata.generate_name is None
        and metadata.self_link is None
        and metadata.deletion_grace_period_seconds is None
    ):
        return None
    rare = {
        "generateName": metadata.generate_name,
        "selfLink": metadata.self_link,
        "deletionGracePeriodSeconds": metadata.deletion_grace_period_seconds,
    }
    return {name: value for name, value in rare.items() if value is not None}
