"""A controller runtime for Kubernetes in asyncio.

    class Website(Resource[WebsiteSpec, WebsiteStatus], group="example.com", version="v1"): ...

    def setup(manager: Manager) -> None:
        async def reconcile(site: Website) -> Result | None: ...
        reconciler = as_reconciler(manager.client, Website, reconcile)
        Builder(manager).for_(Website).owns("apps/v1/Deployment").build(reconciler)

    async def main() -> None:
        manager = Manager(await Config.load(), ManagerOptions(name="website"))
        setup(manager)
        await manager.start()

    run(main())

What most controllers need is imported from here; each name is loaded on its first use.

kinds        Resource, ApiModel, CEL, ListMap, Condition, set_condition, BUILTIN, GroupVersionKind
controllers  Manager, ManagerOptions, Builder, ControllerOptions, Request, Result, TerminalError
in reconcile reconcile_context, logger_from_context, manager.client, manager.recorder
writing      Control, Desired, Owner, Client, merge_patch, create_or_update, retry_on_conflict
events       predicates, enqueue_owner, enqueue_map_func, Channel; Controller.watch and unwatch
webhooks     defaults, validates, FieldError; manager.webhooks
clusters     Cluster, ClusterSet, FileProvider, KubeconfigProvider
tests        ctrlruntime.envtest: Environment, eventually, the fixtures, the simulation

help(Manager), help(Builder) and so on describe each. On the command line: ctrlruntime dev, and
ctrlruntime generate. Documentation: https://ctrlruntime.dev/docs
"""

from __future__ import annotations

__version__ = "0.1.0"
"""The version of library and manager: builds and ``--version`` read it."""

TYPE_CHECKING = False  # importing typing takes longer than all the rest of this module

if TYPE_CHECKING:
    from ctrlruntime.api import (
        BUILTIN,
        CEL,
        ApiModel,
        Atomic,
        Condition,
        Conditions,
        ConditionStatus,
        Duration,
        EmbeddedResource,
        GroupKind,
        GroupVersion,
        GroupVersionKind,
        Immutable,
        Int32,
        IntOrString,
        KindRef,
        ListMap,
        ListSet,
        Manifest,
        MapAtomic,
        MicroTime,
        NoStatus,
        Nullable,
        ObjectMeta,
        OwnerReference,
        PreserveUnknown,
        PrintColumn,
        Quantity,
        RawExtension,
        Resource,
        RESTMapping,
        Scale,
        SelectableField,
        Time,
        at_least_one_of,
        at_most_one_of,
        exactly_one_of,
        find_condition,
        is_condition_false,
        is_condition_true,
        remove_condition,
        set_condition,
    )
    from ctrlruntime.api.meta import (
        add_finalizer,
        has_finalizer,
        remove_finalizer,
        set_controller_reference,
        set_owner_reference,
    )
    from ctrlruntime.cache import (
        Cache,
        CachedClient,
        CacheError,
        CacheOptions,
        CreateEvent,
        DeleteEvent,
        Entry,
        Event,
        KindCacheOptions,
        NotSynced,
        OnlyMetadata,
        OutsideCache,
        UndeclaredKind,
        UnknownIndex,
        UnsupportedRead,
        UpdateEvent,
    )
    from ctrlruntime.client import (
        AlreadyExists,
        APIError,
        BadRequest,
        Client,
        ClientOptions,
        Config,
        Conflict,
        Expired,
        Forbidden,
        Gone,
        InternalError,
        Invalid,
        NoKindMatch,
        NotFound,
        PatchType,
        ServerTimeout,
        StatusCause,
        StatusClient,
        TooManyRequests,
        TransportError,
        TransportOptions,
        Unauthorized,
        WriteOutcomeUnknown,
        create_or_patch,
        create_or_update,
        difference,
        merge_patch,
        retry_on_conflict,
    )
    from ctrlruntime.cluster import (
        Cluster,
        ClusterNotFound,
        ClusterOptions,
        ClusterSet,
        FileProvider,
        KubeconfigProvider,
    )
    from ctrlruntime.controller import (
        Builder,
        BuilderError,
        Channel,
        ChannelSource,
        Controller,
        ControllerOptions,
        FuncSource,
        ObjectReconciler,
        ReconcileContext,
        ReconcileError,
        Reconciler,
        Request,
        Result,
        Source,
        TerminalError,
        TransientError,
        UnrecoverableError,
        as_reconciler,
        enqueue_map_func,
        enqueue_object,
        enqueue_owner,
        is_transient,
        logger_from_context,
        predicates,
        reconcile_context,
    )
    from ctrlruntime.events import (
        EventOptions,
        EventRecorder,
    )
    from ctrlruntime.manager import (
        ElectionOptions,
        GCOptions,
        LeaderElectionLost,
        Manager,
        ManagerOptions,
        MetricsServing,
        Runnable,
        WebhookOptions,
        configure_logs,
        run,
    )
    from ctrlruntime.queue import (
        PriorityQueue,
    )
    from ctrlruntime.resources import (
        Action,
        Control,
        Desired,
        ObjectKey,
        Outcome,
        Owner,
        PatchStrategy,
        Readiness,
        assess,
    )
    from ctrlruntime.webhook import (
        AdmissionOptions,
        AdmissionRequest,
        AdmissionResponse,
        FieldError,
        FieldErrorList,
        allowed,
        defaults,
        denied,
        validates,
    )

__all__ = [
    "BUILTIN",
    "CEL",
    "APIError",
    "Action",
    "AdmissionOptions",
    "AdmissionRequest",
    "AdmissionResponse",
    "AlreadyExists",
    "ApiModel",
    "Atomic",
    "BadRequest",
    "Builder",
    "BuilderError",
    "Cache",
    "CacheError",
    "CacheOptions",
    "CachedClient",
    "Channel",
    "ChannelSource",
    "Client",
    "ClientOptions",
    "Cluster",
    "ClusterNotFound",
    "ClusterOptions",
    "ClusterSet",
    "Condition",
    "ConditionStatus",
    "Conditions",
    "Config",
    "Conflict",
    "Control",
    "Controller",
    "ControllerOptions",
    "CreateEvent",
    "DeleteEvent",
    "Desired",
    "Duration",
    "ElectionOptions",
    "EmbeddedResource",
    "Entry",
    "Event",
    "EventOptions",
    "EventRecorder",
    "Expired",
    "FieldError",
    "FieldErrorList",
    "FileProvider",
    "Forbidden",
    "FuncSource",
    "GCOptions",
    "Gone",
    "GroupKind",
    "GroupVersion",
    "GroupVersionKind",
    "Immutable",
    "Int32",
    "IntOrString",
    "InternalError",
    "Invalid",
    "KindCacheOptions",
    "KindRef",
    "KubeconfigProvider",
    "LeaderElectionLost",
    "ListMap",
    "ListSet",
    "Manager",
    "ManagerOptions",
    "Manifest",
    "MapAtomic",
    "MetricsServing",
    "MicroTime",
    "NoKindMatch",
    "NoStatus",
    "NotFound",
    "NotSynced",
    "Nullable",
    "ObjectKey",
    "ObjectMeta",
    "ObjectReconciler",
    "OnlyMetadata",
    "Outcome",
    "OutsideCache",
    "Owner",
    "OwnerReference",
    "PatchStrategy",
    "PatchType",
    "PreserveUnknown",
    "PrintColumn",
    "PriorityQueue",
    "Quantity",
    "RESTMapping",
    "RawExtension",
    "Readiness",
    "ReconcileContext",
    "ReconcileError",
    "Reconciler",
    "Request",
    "Resource",
    "Result",
    "Runnable",
    "Scale",
    "SelectableField",
    "ServerTimeout",
    "Source",
    "StatusCause",
    "StatusClient",
    "TerminalError",
    "Time",
    "TooManyRequests",
    "TransientError",
    "TransportError",
    "TransportOptions",
    "Unauthorized",
    "UndeclaredKind",
    "UnknownIndex",
    "UnrecoverableError",
    "UnsupportedRead",
    "UpdateEvent",
    "WebhookOptions",
    "WriteOutcomeUnknown",
    "add_finalizer",
    "allowed",
    "as_reconciler",
    "assess",
    "at_least_one_of",
    "at_most_one_of",
    "configure_logs",
    "create_or_patch",
    "create_or_update",
    "defaults",
    "denied",
    "difference",
    "enqueue_map_func",
    "enqueue_object",
    "enqueue_owner",
    "exactly_one_of",
    "find_condition",
    "has_finalizer",
    "is_condition_false",
    "is_condition_true",
    "is_transient",
    "logger_from_context",
    "merge_patch",
    "predicates",
    "reconcile_context",
    "remove_condition",
    "remove_finalizer",
    "retry_on_conflict",
    "run",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
    "validates",
]

_SOURCES = {
    "ctrlruntime.api": (
        "ApiModel at_least_one_of at_most_one_of Atomic BUILTIN CEL Condition Conditions "
        "ConditionStatus Duration EmbeddedResource exactly_one_of find_condition GroupKind "
        "GroupVersion GroupVersionKind Immutable Int32 IntOrString is_condition_false "
        "is_condition_true KindRef ListMap ListSet Manifest MapAtomic MicroTime NoStatus "
        "Nullable ObjectMeta OwnerReference PreserveUnknown PrintColumn Quantity RawExtension "
        "remove_condition Resource RESTMapping Scale SelectableField set_condition Time"
    ),
    "ctrlruntime.api.meta": (
        "add_finalizer has_finalizer remove_finalizer set_controller_reference set_owner_reference"
    ),
    "ctrlruntime.cache": (
        "Cache CachedClient CacheError CacheOptions CreateEvent DeleteEvent Entry Event "
        "KindCacheOptions NotSynced OnlyMetadata OutsideCache UndeclaredKind UnknownIndex "
        "UnsupportedRead UpdateEvent"
    ),
    "ctrlruntime.client": (
        "AlreadyExists APIError BadRequest Client ClientOptions Config Conflict create_or_patch "
        "create_or_update difference Expired Forbidden Gone InternalError Invalid merge_patch "
        "NoKindMatch NotFound PatchType retry_on_conflict ServerTimeout StatusCause "
        "StatusClient TooManyRequests TransportError TransportOptions Unauthorized "
        "WriteOutcomeUnknown"
    ),
    "ctrlruntime.cluster": (
        "Cluster ClusterNotFound ClusterOptions ClusterSet FileProvider KubeconfigProvider"
    ),
    "ctrlruntime.controller": (
        "as_reconciler Builder BuilderError Channel ChannelSource Controller "
        "ControllerOptions reconcile_context enqueue_map_func enqueue_owner enqueue_object FuncSource "
        "is_transient logger_from_context ObjectReconciler ReconcileError Reconciler Request "
        "Result ReconcileContext Source TerminalError TransientError UnrecoverableError"
    ),
    "ctrlruntime.events": ("EventOptions EventRecorder"),
    "ctrlruntime.manager": (
        "configure_logs ElectionOptions GCOptions LeaderElectionLost Manager ManagerOptions "
        "MetricsServing run Runnable WebhookOptions"
    ),
    "ctrlruntime.queue": ("PriorityQueue"),
    "ctrlruntime.resources": (
        "Action assess Control Desired ObjectKey Outcome Owner PatchStrategy Readiness"
    ),
    "ctrlruntime.webhook": (
        "AdmissionOptions AdmissionRequest AdmissionResponse allowed defaults denied FieldError "
        "FieldErrorList validates"
    ),
}
"""The names that each module is loaded for. A test compares them with ``__all__`` and the imports above."""

_SOURCE_OF = {name: source for source, names in _SOURCES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load an exported name from its module; raise AttributeError for any other."""
    from importlib import import_module

    if name == "predicates":
        return import_module("ctrlruntime.controller.predicates")
    source = _SOURCE_OF.get(name)
    if source is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(source), name)
    return value


def __dir__() -> list[str]:
    """Return the exported names too, for completion in a shell; none of them for help(), which is one page."""
    import sys

    frame = sys._getframe()
    while frame.f_back is not None and frame.f_back.f_globals.get("__name__") == "inspect":
        frame = frame.f_back
    if frame.f_back is not None and frame.f_back.f_globals.get("__name__") == "pydoc":
        return ["__doc__", "__name__"]
    return sorted({*globals(), *__all__})
