"""Namespaces."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.printers.column import Cells, age, part


def _send(obj: Manifest) -> None:
    labels = obj["metadata"].setdefault("labels", {})
    if name := obj["metadata"].get("name"):
        labels["kubernetes.io/metadata.name"] = name


def _create(obj: Manifest) -> None:
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _keep_finalizers(new: Manifest, old: Manifest, subresource: str) -> None:
    """Only the finalize subresource changes the finalizers in the spec of a namespace."""
    if subresource == "finalize":
        return
    finalizers = (old.get("spec") or {}).get("finalizers")
    new["spec"] = {"finalizers": finalizers} if finalizers else {}


def _cells(obj: Manifest, now: datetime) -> Cells:
    return [obj["metadata"]["name"], part(obj, "status").get("phase") or "", age(obj, now)]


NAMESPACE: Final = builtin_kind(
    "",
    "Namespace",
    "namespaces",
    "ns",
    namespaced=False,
    name_rule="label",
    subresources=("finalize", "status"),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    more_fields=("status.phase",),
    defaults=Defaults({"spec": {}}),
    status={"phase": "Active"},
    columns="Name | Status | Age",
    cells=_cells,
    before_tracking=_send,
    before_create=_create,
    before_update=_keep_finalizers,
)
