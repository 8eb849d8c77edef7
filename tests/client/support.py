"""A kind of our own, and manifests."""

import contextlib
from typing import Any

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.resource import ApiModel, Resource
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, NotFound
from tests.support.waiting import eventually_succeeds

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
POD = GroupVersionKind("", "v1", "Pod")
SERVICE_ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")


class WidgetSpec(ApiModel):
    size: int = 1
    colour: str | None = None


class WidgetStatus(ApiModel):
    ready: bool = False


class Widget(
    Resource[WidgetSpec, WidgetStatus], group="client.example.com", version="v1", plural="widgets"
):
    """A thing to test with."""


WIDGET = GroupVersionKind("client.example.com", "v1", "Widget")


def widget_crd() -> dict[str, Any]:
    properties = {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0},
                "colour": {"type": "string"},
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.client.example.com"},
        "spec": {
            "group": "client.example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version],
        },
    }


def config_map(name: str, data: dict[str, str] | None = None, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "data": data or {},
    }


def deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "example.com/main:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


class Seen:
    """A request observer that remembers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.retries: list[str] = []

    def requested(
        self, method: str, host: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        self.requests.append((method, code))

    def retried(self, method: str, host: str, code: str) -> None:
        self.retries.append(code)

    def warning_lost(self) -> None:
        return


async def install_widgets(client: Client) -> None:
    """The CRD of Widget is there and served; on a shared server it stays."""
    with contextlib.suppress(AlreadyExists):
        await client.create(widget_crd())
    await eventually_succeeds(lambda: client.list(Widget, "default"), despite=NotFound)
