"""Objects that the tests write."""

from __future__ import annotations

import copy
from typing import Any, Final

GROUP: Final = "conformance.example.com"
"""Group of the definitions that tests share; who changes a definition takes `api.group`."""
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def configmap(name: str, data: dict[str, str] | None = None, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {"a": "1"},
    }


def secret(name: str, value: str = "MQ==", **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, **metadata},
        "data": {"a": value},
    }


def deployment(name: str, image: str = "nginx:1", **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }


def pod(name: str, **metadata: object) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "nginx:1"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def widget(
    name: str, spec: object = None, *, group: str = GROUP, **metadata: object
) -> dict[str, Any]:
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": spec or {"size": 1},
    }


WIDGET_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "color": {"type": "string", "default": "red", "enum": ["red", "green"]},
                "replicas": {"type": "integer", "default": 1},
                "hub": {
                    "type": "string",
                    "x-kubernetes-validations": [
                        {"rule": "self == oldSelf", "message": "hub is immutable"}
                    ],
                },
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}},
        },
    },
}
_SUBRESOURCES: Final[dict[str, Any]] = {
    "status": {},
    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
}


def definition(group: str = GROUP, **version: object) -> dict[str, Any]:
    """The CustomResourceDefinition of Widget."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": WIDGET_SCHEMA},
                    "subresources": _SUBRESOURCES,
                    **version,
                }
            ],
        },
    }


_PORTS: Final[dict[str, Any]] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {
        "type": "object",
        "required": ["port"],
        "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "name": {"type": "string"},
        },
    },
}
_TEXTS: Final[dict[str, Any]] = {"type": "array", "items": {"type": "string"}}
SHAPE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "ports": _PORTS,
                "names": {**_TEXTS, "x-kubernetes-list-type": "set"},
                "atoms": {**_TEXTS, "x-kubernetes-list-type": "atomic"},
                "plain": {**_TEXTS, "maxItems": 3, "minItems": 1},
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"},
                },
                "parts": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "port": {"x-kubernetes-int-or-string": True},
                "object": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "note": {"type": "string", "nullable": True, "default": "none"},
                "when": {"type": "string", "format": "date-time"},
                "mode": {"type": "string", "enum": ["on", "off"], "default": "on"},
                "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
                "count": {"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 5},
                "ratio": {"type": "number", "maximum": 1, "exclusiveMaximum": True},
                "yes": {"type": "boolean"},
                "nested": {
                    "type": "object",
                    "default": {"name": "n"},
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "default": "n"},
                        "deep": {"type": "object", "properties": {"a": {"type": "integer"}}},
                    },
                },
                "box": {
                    "type": "object",
                    "properties": {
                        "lid": {"type": "string", "default": "shut"},
                        "size": {"type": "integer"},
                    },
                },
                "either": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                },
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def shapes(group: str = GROUP, *, either: bool = True) -> dict[str, Any]:
    """The definition of Shape, which has every kind of list and map and no subresource.

    `either`: with the field that is a number or a text.
    """
    crd = definition(group)
    crd["metadata"]["name"] = f"shapes.{group}"
    crd["spec"]["names"] = {"plural": "shapes", "kind": "Shape", "categories": ["drawing"]}
    version = crd["spec"]["versions"][0]
    schema = copy.deepcopy(SHAPE_SCHEMA)
    if not either:
        del schema["properties"]["spec"]["properties"]["port"]
    version["schema"] = {"openAPIV3Schema": schema}
    del version["subresources"]
    return crd


def shape(name: str, spec: object = None, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Shape",
        "metadata": {"name": name, **metadata},
        **({} if spec is None else {"spec": spec}),
    }
