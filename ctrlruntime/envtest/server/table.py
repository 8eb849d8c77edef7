"""Objects as `Table`, the form kubectl prints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest.server.errors import bad_request
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.printers import Printer, printer_for
from ctrlruntime.envtest.server.request import Request

_INCLUDED: Final = ("None", "Metadata", "Object")


def included(request: Request) -> str:
    """Return what of each object its row carries: `includeObject`. Raises BadRequest."""
    wanted = request.query.get("includeObject") or "Metadata"
    if wanted not in _INCLUDED:
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{wanted}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return wanted


def render(
    kind: Kind,
    version: str,
    objects: Sequence[Manifest],
    resource_version: str,
    *,
    include: str = "Metadata",
    headers: bool = True,
    list_metadata: dict[str, Any] | None = None,
    now: datetime | None = None,
) -> Manifest:
    """Return a Table of the objects. `include` is `includeObject`: None, Metadata or Object."""
    printer = printer_for(kind, version)
    moment = now or utc_now()
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata or {"resourceVersion": resource_version},
        "columnDefinitions": [column.definition() for column in printer.columns] if headers else [],
        "rows": [_row(printer, obj, include, moment) for obj in objects],
    }


def _row(printer: Printer, obj: Manifest, include: str, now: datetime) -> Manifest:
    row: Manifest = {"cells": printer.cells(obj, now)}
    conditions = printer.conditions(obj) if printer.conditions else []
    if conditions:
        row["conditions"] = conditions
    row["object"] = _row_object(obj, include)
    return row


def _row_object(obj: Manifest, include: str) -> Manifest | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }
