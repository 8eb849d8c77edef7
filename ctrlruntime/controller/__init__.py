"""Controllers: sources of events, handlers and predicates, the reconcile loop, the builder."""

from ctrlruntime.controller.builder import Builder, BuilderError
from ctrlruntime.controller.controller import Controller, SourceSyncTimeout
from ctrlruntime.controller.failures import (
    Failures,
    TransientError,
    UnrecoverableError,
    is_transient,
)
from ctrlruntime.controller.finalizers import Finalized, Finalizers
from ctrlruntime.controller.handlers import enqueue_mapped, enqueue_owner, enqueue_self
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.controller.reconcile import (
    ReconcileError,
    Reconciler,
    Result,
    Run,
    TerminalError,
    current,
)
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
    "Builder",
    "BuilderError",
    "Channel",
    "ChannelSource",
    "Controller",
    "ControllerOptions",
    "Failures",
    "Finalized",
    "Finalizers",
    "FuncSource",
    "InformerSource",
    "KindSource",
    "ReconcileError",
    "Reconciler",
    "Request",
    "Result",
    "Run",
    "Source",
    "SourceSyncTimeout",
    "TerminalError",
    "TransientError",
    "UnrecoverableError",
    "current",
    "enqueue_mapped",
    "enqueue_owner",
    "enqueue_self",
    "is_transient",
]
