"""What a startup handler may set: the part of kopf's settings that has a meaning here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

from ctrlruntime.kopf.objects import FINALIZER

__all__ = ["OperatorSettings", "WebhookServer"]


@dataclass(slots=True, kw_only=True)
class WebhookServer:
    """Where webhooks are served, and where the API server finds them."""

    addr: str = ""
    port: int = 9443
    host: str = ""
    """A name or address in the certificate; empty for the Service of the manager's options."""
    certfile: Path | None = None
    pkeyfile: Path | None = None
    cafile: Path | None = None


@dataclass(slots=True)
class Persistence:
    """Where what was handled is kept."""

    finalizer: str = FINALIZER
    records: Literal["auto", "status", "configmaps"] = "auto"
    """auto: in the status of kinds that keep the field, otherwise in ConfigMaps."""


@dataclass(slots=True)
class Batching:
    """How many objects of a kind are handled at a time."""

    worker_limit: int | None = None


@dataclass(slots=True)
class Execution:
    """How many plain functions run at a time, daemons included."""

    max_workers: int | None = None


@dataclass(slots=True)
class Admission:
    """Webhooks."""

    server: WebhookServer | None = None
    managed: str | None = None
    """A name for webhook configurations that the operator writes; None: they are installed with it."""


@dataclass(slots=True)
class Peering:
    """kopf's peering: here a Lease."""

    name: str = ""
    namespace: str = ""
    standalone: bool = True


class _Inert(SimpleNamespace):
    """Settings that have no effect here: attributes that are set are kept, and not used."""


@dataclass(slots=True)
class OperatorSettings:
    """What the keyword argument `settings` of startup handlers is."""

    persistence: Persistence = field(default_factory=Persistence)
    batching: Batching = field(default_factory=Batching)
    execution: Execution = field(default_factory=Execution)
    admission: Admission = field(default_factory=Admission)
    peering: Peering = field(default_factory=Peering)
    posting: _Inert = field(default_factory=_Inert)
    watching: _Inert = field(default_factory=_Inert)
    networking: _Inert = field(default_factory=_Inert)
    process: _Inert = field(default_factory=_Inert)
    background: _Inert = field(default_factory=_Inert)
    queueing: _Inert = field(default_factory=_Inert)
    scanning: _Inert = field(default_factory=_Inert)
