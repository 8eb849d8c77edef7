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
SyncDaemonStopperChecker: TypeAlias = DaemonStopped
BodyEssence: TypeAlias = Mapping[str, Any]
FieldPath: TypeAlias = tuple[str, ...]
FieldSpec: TypeAlias = str | tuple[str, ...] | list[str] | None
HandlerId: TypeAlias = str
Headers: TypeAlias = Mapping[str, str]
"""Of a request for admission; empty here."""
LocalObjectLogger: TypeAlias = Logger
ObjectLogger: TypeAlias = Logger
ObjectReference: TypeAlias = Mapping[str, Any]
Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
OwnerReference: TypeAlias = Mapping[str, Any]
RawBody: TypeAlias = Mapping[str, Any]
RawEventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] | None
Reason: TypeAlias = str
Resource: TypeAlias = RESTMapping
SSLPeer: TypeAlias = Mapping[str, Any]
"""Of a request for admission; empty here."""
Store: TypeAlias = Collection[Any]
"""The values of an index under one key."""
UserInfo: TypeAlias = Mapping[str, Any]
"""``username``, ``uid`` and ``groups`` of who sent a request for admission."""
