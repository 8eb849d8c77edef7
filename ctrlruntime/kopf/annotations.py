"""What kopf calls the arguments of handlers, for their annotations: files that use the names are imported as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.kopf.bodies import Logger
from ctrlruntime.kopf.tasks import DaemonStopped

__all__ = [
    "AsyncDaemonStopperChecker",
    "BodyEssence",
    "FieldPath",
    "FieldSpec",
    "HandlerId",
    "Headers",
    "LocalObjectLogger",
    "ObjectLogger",
    "ObjectReference",
    "Operation",
    "OwnerReference",
    "RawBody",
    "RawEventType",
    "Reason",
    "Resource",
    "SSLPeer",
    "Store",
    "SyncDaemonStopperChecker",
    "UserInfo",
]

AsyncDaemonStopperChecker: TypeAlias = DaemonStopped
"""The argument ``stopped`` of a coroutine that is a daemon."""
SyncDaemonStopperChecker: TypeAlias = DaemonStopped
"""The argument ``stopped`` of a plain function that is a daemon."""
BodyEssence: TypeAlias = Mapping[str, Any]
"""What of an object counts as a change."""
FieldPath: TypeAlias = tuple[str, ...]
"""The keys that lead to a field."""
FieldSpec: TypeAlias = str | tuple[str, ...] | list[str] | None
"""A field as a handler names it: with dots, or key by key."""
HandlerId: TypeAlias = str
"""The name of a handler."""
Headers: TypeAlias = Mapping[str, str]
"""Of a request for admission; empty here."""
LocalObjectLogger: TypeAlias = Logger
"""The argument ``logger``."""
ObjectLogger: TypeAlias = Logger
"""The argument ``logger``."""
ObjectReference: TypeAlias = Mapping[str, Any]
"""An object as events and references name it."""
Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
"""What a request for admission does."""
OwnerReference: TypeAlias = Mapping[str, Any]
"""An entry of ``metadata.ownerReferences``."""
RawBody: TypeAlias = Mapping[str, Any]
"""An object as the API server sends it."""
RawEventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] | None
"""The type of an event of a watch; None for what a list has."""
Reason: TypeAlias = str
"""Why a handler is called: ``create``, ``update``, ``delete`` or ``resume``."""
Resource: TypeAlias = RESTMapping
"""The kind of an object: group, version and plural."""
SSLPeer: TypeAlias = Mapping[str, Any]
"""Of a request for admission; empty here."""
Store: TypeAlias = Collection[Any]
"""The values of an index under one key."""
UserInfo: TypeAlias = Mapping[str, Any]
"""``username``, ``uid`` and ``groups`` of who sent a request for admission."""
