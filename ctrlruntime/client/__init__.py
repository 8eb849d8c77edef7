"""Reads and writes of an API server: configuration, transport, typed errors, all verbs.

:class:`Client` is always live; a manager's own reads declared kinds from its cache.
"""

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.create_or_update import (
    Upserted,
    create_or_patch,
    create_or_update,
    retry_on_conflict,
)
from ctrlruntime.client.errors import (
    AlreadyExists,
    APIError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NoKindMatch,
    NotFound,
    ServerTimeout,
    StatusCause,
    TooManyRequests,
    TransportError,
    Unauthorized,
    WriteOutcomeUnknown,
)
from ctrlruntime.client.keyed_lock import KeyedLock
from ctrlruntime.client.mapper import RESTMapper
from ctrlruntime.client.options import ClientOptions
from ctrlruntime.client.patches import PatchType, difference, merge_patch
from ctrlruntime.client.protected_namespaces import NamespaceProtected, ProtectedNamespaces
from ctrlruntime.client.reads import ListPage
from ctrlruntime.client.status_client import StatusClient
from ctrlruntime.client.transport import Transport, TransportOptions

__all__ = [
    "APIError",
    "AlreadyExists",
    "BadRequest",
    "Client",
    "ClientOptions",
    "Config",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "KeyedLock",
    "ListPage",
    "NamespaceProtected",
    "NoKindMatch",
    "NotFound",
    "PatchType",
    "ProtectedNamespaces",
    "RESTMapper",
    "ServerTimeout",
    "StatusCause",
    "StatusClient",
    "TooManyRequests",
    "Transport",
    "TransportError",
    "TransportOptions",
    "Unauthorized",
    "Upserted",
    "WriteOutcomeUnknown",
    "create_or_patch",
    "create_or_update",
    "difference",
    "merge_patch",
    "retry_on_conflict",
]
