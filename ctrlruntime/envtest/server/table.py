"""Objects as `Table`, the form kubectl prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.kinds import Kind


def render(
    kind: Kind,
    version: str,
    objects: Sequence[Manifest],
    resource_version: str,
    *,
    include: str = "Metadata",
    headers: bool = True,
    list_metadata: dict[str, Any] | None = None,
) -> Manifest:
    """A Table of the objects. `include` is `includeObject`: None, Metadata or Object."""
    del kind, version
    rows = [
        {
            "cells": [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")],
            "object": _row_object(obj, include),
        }
        for obj in objects
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata or {"resourceVersion": resource_version},
        "columnDefinitions": _columns() if headers else [],
        "rows": rows,
    }


def _columns() -> list[dict[str, Any]]:
    return [
        {
            "name": "Name",
            "type": "string",
            "format": "name",
            "description": "Name must be unique within a namespace.",
            "priority": 0,
        },
        {
            "name": "Created At",
            "type": "date",
            "format": "",
            "description": "When the object was created.",
            "priority": 0,
        },
    ]


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
