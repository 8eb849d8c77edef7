"""kopf's handlers on this runtime, for moving over: ``from ctrlruntime import kopf`` instead of ``import kopf``.

What was handled is recorded in the status or in ConfigMaps, never in annotations. ``ctrlruntime kopf run FILE`` runs
handlers; docs/coming-from-kopf.md has what differs.
"""

from ctrlruntime.kopf import on
from ctrlruntime.kopf.annotations import (
    AsyncDaemonStopperChecker,
    BodyEssence,
    FieldPath,
    FieldSpec,
    HandlerId,
    Headers,
    LocalObjectLogger,
    ObjectLogger,
    ObjectReference,
    Operation,
    OwnerReference,
    RawBody,
    RawEventType,
    Reason,
    Resource,
    SSLPeer,
    Store,
    SyncDaemonStopperChecker,
    UserInfo,
)
from ctrlruntime.kopf.bodies import (
    Annotations,
    Body,
    Diff,
    DiffItem,
    DiffOperation,
    Labels,
    Logger,
    Memo,
    Meta,
    Patch,
    RawEvent,
    Spec,
    Status,
)
from ctrlruntime.kopf.errors import (
    AdmissionError,
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    NotOffered,
    PermanentError,
    TemporaryError,
)
from ctrlruntime.kopf.filters import all_, any_, none_, not_
from ctrlruntime.kopf.handling import execute, register, subhandler
from ctrlruntime.kopf.hierarchies import (
    adjust_namespace,
    adopt,
    append_owner_reference,
    event,
    exception,
    harmonize_naming,
    info,
    label,
    remove_owner_reference,
    warn,
)
from ctrlruntime.kopf.indices import Index
from ctrlruntime.kopf.kinds import KindNotServed
from ctrlruntime.kopf.logs import configure
from ctrlruntime.kopf.on import daemon, index, timer
from ctrlruntime.kopf.operator import operator, running
from ctrlruntime.kopf.registry import (
    ABSENT,
    PRESENT,
    OperatorRegistry,
    default_registry,
    set_default_registry,
)
from ctrlruntime.kopf.settings import OperatorSettings, WebhookServer
from ctrlruntime.kopf.tasks import DaemonStopped

__all__ = [
    "ABSENT",
    "PRESENT",
    "AdmissionError",
    "Annotations",
    "AsyncDaemonStopperChecker",
    "Body",
    "BodyEssence",
    "DaemonStopped",
    "Diff",
    "DiffItem",
    "DiffOperation",
    "ErrorsMode",
    "FieldPath",
    "FieldSpec",
    "HandlerId",
    "HandlerRetriesError",
    "HandlerTimeoutError",
    "Headers",
    "Index",
    "KindNotServed",
    "Labels",
    "LocalObjectLogger",
    "Logger",
    "Memo",
    "Meta",
    "NotOffered",
    "ObjectLogger",
    "ObjectReference",
    "Operation",
    "OperatorRegistry",
    "OperatorSettings",
    "OwnerReference",
    "Patch",
    "PermanentError",
    "RawBody",
    "RawEvent",
    "RawEventType",
    "Reason",
    "Resource",
    "SSLPeer",
    "Spec",
    "Status",
    "Store",
    "SyncDaemonStopperChecker",
    "TemporaryError",
    "UserInfo",
    "WebhookServer",
    "adjust_namespace",
    "adopt",
    "all_",
    "any_",
    "append_owner_reference",
    "configure",
    "daemon",
    "default_registry",
    "event",
    "exception",
    "execute",
    "harmonize_naming",
    "index",
    "info",
    "label",
    "none_",
    "not_",
    "on",
    "operator",
    "register",
    "remove_owner_reference",
    "running",
    "set_default_registry",
    "subhandler",
    "timer",
    "warn",
]

_ELSEWHERE = {
    "EVERYTHING": "name each kind: handlers here are for one",
    "AnnotationsProgressStorage": "take it away: nothing is recorded in annotations",
    "AnnotationsDiffBaseStorage": "take it away: nothing is recorded in annotations",
    "StatusProgressStorage": "settings.persistence.records = 'status'",
    "StatusDiffBaseStorage": "settings.persistence.records = 'status'",
    "SmartProgressStorage": "take it away: the place is chosen for each kind",
    "MultiProgressStorage": "take it away: the place is chosen for each kind",
    "ConnectionInfo": "take the login handler away, or pass kopf.operator(config=...)",
    "login_via_client": "take the login handler away",
    "login_via_pykube": "take the login handler away",
    "login_with_kubeconfig": "take the login handler away",
    "login_with_service_account": "take the login handler away",
    "login_via_async_client": "take the login handler away",
    "LoginError": "take the login handler away",
    "AiohttpSession": "take the login handler away",
    "ProgressStorage": "take it away: nothing is recorded in annotations",
    "DiffBaseStorage": "take it away: nothing is recorded in annotations",
    "MultiDiffBaseStorage": "take it away: the place is chosen for each kind",
    "ProgressRecord": "take it away: records are no objects here",
    "lifecycles": "take it away: handlers run in the order in which they are registered",
    "get_default_lifecycle": "take it away: handlers run in the order in which they are registered",
    "set_default_lifecycle": "take it away: handlers run in the order in which they are registered",
    "build_object_reference": "kopf.event(body, ...), which makes it",
    "build_owner_reference": "kopf.append_owner_reference, which makes it",
    "DaemonStoppingReason": "the flag `stopped`, which has no reason",
    "PatchFn": "the patch of a handler",
    "LogFormat": "logging.basicConfig",
    "get_default_registry": "kopf.default_registry()",
    "spawn_tasks": "asyncio.create_task(kopf.operator())",
    "run_tasks": "await kopf.operator()",
    "run": "asyncio.run(kopf.operator()), or: ctrlruntime kopf run FILE",
}


def __getattr__(name: str) -> object:
    """Raise NotOffered for what kopf has and this package has not; it names what serves instead."""
    if name in _ELSEWHERE or (name.startswith("Webhook") and name != "WebhookServer"):
        instead = _ELSEWHERE.get(name, "kopf.WebhookServer(host=..., certfile=..., pkeyfile=...)")
        raise NotOffered(f"kopf.{name} is not offered here; instead: {instead}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
