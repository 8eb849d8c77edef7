"""Typed kinds of discovery/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.kinds.base import BuiltinModel, SpeclessKind
from ctrlruntime.kinds.core.v1 import ObjectReference

__all__ = [
    "Endpoint",
    "EndpointConditions",
    "EndpointHints",
    "EndpointPort",
    "EndpointSlice",
    "ForNode",
    "ForZone",
]


class EndpointConditions(BuiltinModel):
    """EndpointConditions of discovery/v1."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForNode(BuiltinModel):
    """ForNode of discovery/v1."""

    name: str


class ForZone(BuiltinModel):
    """ForZone of discovery/v1."""

    name: str


class EndpointHints(BuiltinModel):
    """EndpointHints of discovery/v1."""

    for_nodes: list[ForNode] = Field(default_factory=list)
    for_zones: list[ForZone] = Field(default_factory=list)


class Endpoint(BuiltinModel):
    """Endpoint of discovery/v1."""

    addresses: list[str]
    conditions: EndpointConditions | None = None
    deprecated_topology: dict[str, str] = Field(default_factory=dict)
    hints: EndpointHints | None = None
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None
    zone: str | None = None


class EndpointPort(BuiltinModel):
    """EndpointPort of discovery/v1."""

    app_protocol: str | None = None
    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class EndpointSlice(SpeclessKind[NoStatus], group="discovery.k8s.io", version="v1"):
    """EndpointSlice of discovery/v1."""

    address_type: str
    endpoints: list[Endpoint] = Field(default_factory=list)
    ports: list[EndpointPort] = Field(default_factory=list)
