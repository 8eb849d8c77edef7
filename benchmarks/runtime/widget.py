"""The kind that the benchmark reconciles."""

from __future__ import annotations

from ctrlruntime.api import ApiModel, Resource
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.generate.crd import crd_of


class WidgetSpec(ApiModel):
    size: int
    note: str


class WidgetStatus(ApiModel):
    ready: bool = False
    config_map: str | None = None


class Widget(
    Resource[WidgetSpec, WidgetStatus],
    group="bench.ctrlruntime.dev",
    version="v1",
    plural="widgets",
    scope="Namespaced",
):
    """Something small that wants a ConfigMap."""


def widget_definition() -> Manifest:
    """The CRD, with the field that `ctrlruntime.kopf` records in."""
    crd = crd_of((Widget,))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    record = {"type": "object", "properties": {"record": {"type": "string"}}}
    schema["properties"]["status"]["properties"]["kopf"] = record
    return crd


PREFIX = "widget-"
NOTE = "x" * 400
"""Makes a widget about as large as a real one."""


def widget(namespace: str, number: int) -> Manifest:
    return {
        "apiVersion": Widget.gvk().api_version,
        "kind": "Widget",
        "metadata": {"name": f"{PREFIX}{number:05}", "namespace": namespace},
        "spec": {"size": number, "note": NOTE},
    }
