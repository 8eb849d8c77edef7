"""Controllers: sources of events, handlers and predicates, the reconcile loop, the builder."""

from ctrlruntime.controller.aggregate_error import (
    AggregateError,
    TransientError,
    UnrecoverableError,
    is_transient,
)
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.controller import Controller, SourceSyncTimeout
from ctrlruntime.controller.declared_watches import BuilderError
from ctrlruntime.controller.error_status import ErrorStatus
from ctrlruntime.controller.finalizers import FinalizeResult, Finalizers
from ctrlruntime.controller.handlers import enqueue_map_func, enqueue_object, enqueue_owner
from ctrlruntime.controller.object_change import ObjectChange
from ctrlruntime.controller.object_reconciler import ObjectReconciler, as_reconciler
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.controller.reconcile import (
    BlockingReconciler,
    ReconcileContext,
    ReconcileError,
    Reconciler,
    Result,
    TerminalError,
    logger_from_context,
    reconcile_context,
)
from ctrlruntime.controller.slot_labels import slot_labels
from ctrlruntime.controller.sources import (
    Channel,
    ChannelSource,
    FuncSource,
    InformerSource,
    KindSource,
    Source,
)
from ctrlruntime.queue import Request

__all__ = [
    "AggregateError",
    "BlockingReconciler",
    "Builder",
    "BuilderError",
    "Channel",
    "ChannelSource",
    "Controller",
    "ControllerOptions",
    "ErrorStatus",
    "FinalizeResult",
    "Finalizers",
    "FuncSource",
    "InformerSource",
    "KindSource",
    "ObjectChange",
    "ObjectReconciler",
    "ReconcileContext",
    "ReconcileError",
    "Reconciler",
    "Request",
    "Result",
    "Source",
    "SourceSyncTimeout",
    "TerminalError",
    "TransientError",
    "UnrecoverableError",
    "as_reconciler",
    "enqueue_map_func",
    "enqueue_object",
    "enqueue_owner",
    "is_transient",
    "logger_from_context",
    "reconcile_context",
    "slot_labels",
]
