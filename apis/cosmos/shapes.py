"""Texts and objects that the API server checks when a resource is written.

Each is a plain value in Python: an object that was stored before a check existed can still be read. What is wrong
with it is then reported when it is used.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema
from pydantic.fields import FieldInfo

from ctrlruntime.api import Duration

__all__ = [
    "AccessMode",
    "ComputeResources",
    "Cron",
    "Folder",
    "Image",
    "Interval",
    "LabelValue",
    "ListenAddress",
    "NamedContainer",
    "NamedVolume",
    "ObjectName",
    "OptionalImage",
    "OptionalObjectName",
    "PodSpec",
    "ServicePort",
    "StorageResources",
    "TimeZone",
]

Schema = dict[str, Any]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_PORT: Final = (
    "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
)
_SEGMENT: Final = r"\.?[A-Za-z0-9_-][A-Za-z0-9._-]*"
_NUMBER: Final = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_AMOUNT: Final = rf"^\+?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{{1,2}})?$"
_CRON: Final = "[0-9A-Za-z*/,#?-]+"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


def _text(pattern: str, longest: int | None = None) -> FieldInfo:
    extra: Schema = {"pattern": pattern}
    if longest is not None:
        extra["maxLength"] = longest
    field: FieldInfo = Field(json_schema_extra=extra)
    return field


def _number_or(pattern: str, longest: int) -> Schema:
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "minimum": 0,
        "maxLength": longest,
        "pattern": pattern,
        _INT_OR_STRING: True,
    }


def _open(properties: Schema, *required: str) -> Schema:
    """Return an object of which some fields are checked and the others are kept as they are."""
    made: Schema = {"type": "object", "properties": properties, _PRESERVE: True}
    return {**made, "required": list(required)} if required else made


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _described(text: str, schema: Schema) -> Schema:
    """Return a field, with its text for `kubectl explain`."""
    return {"description": text, **schema}


ObjectName = Annotated[str, _text(f"^{_SUBDOMAIN}$", 253)]
"""Name of an object."""
OptionalObjectName = Annotated[str, _text(f"^({_SUBDOMAIN})?$", 253)]
"""Name of an object; empty: none is given."""
Image = Annotated[str, _text(r"^\S+$")]
"""Image of a container."""
OptionalImage = Annotated[str, _text(r"^\S*$")]
"""Image of a container; empty: none is given."""
LabelValue = Annotated[str, _text("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", 63)]
"""Value of a label."""
Folder = Annotated[str, _text(f"^({_SEGMENT}(/{_SEGMENT})*)?$", 200)]
"""Folder below another one, without `..`."""
ListenAddress = Annotated[
    str, _text(rf"^([a-z]+://)?(\[[0-9A-Fa-f:.%]*\]|[^\s/:\[\]]*):{_PORT}/?$", 253)
]
"""Where a process listens, with a port: tcp://0.0.0.0:26657."""
AccessMode = Annotated[str, _text("^(ReadWriteOnce|ReadOnlyMany|ReadWriteMany|ReadWriteOncePod)$")]
"""How a volume may be mounted."""
Cron = Annotated[
    str, _text(f"^ *(@[A-Za-z]+( +[0-9a-zµμ.]+)?|({_CRON}[ \t]+){{4}}{_CRON}) *$", 253)
]
"""Five fields, or a macro such as @daily or `@every 6h`."""
TimeZone = Annotated[str, _text("^[A-Za-z0-9_+/-]*$", 64)]
"""Name of a time zone: Europe/Berlin."""
Interval = Annotated[
    Duration,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\+?([0-9]{1,6}(\.[0-9]{0,6})?(ns|us|µs|ms|s|m|h))+$",
            "maxLength": 32,
        }
    ),
]
"""A duration such as 1h30m."""

_QUANTITY: Final = _number_or(_AMOUNT, 32)
_QUANTITIES: Final[Schema] = {"type": "object", "additionalProperties": _QUANTITY}
_LIMITS: Final = _described("The most of each resource that may be used.", _QUANTITIES)

ComputeResources = Annotated[
    dict[str, Any],
    WithJsonSchema(
        _open(
            {
                "limits": _LIMITS,
                "requests": _described("How much of each resource is set aside.", _QUANTITIES),
            }
        )
    ),
]
"""`limits` and `requests` of a container."""

StorageResources = Annotated[
    dict[str, Any],
    WithJsonSchema(
        _open(
            {
                "limits": _LIMITS,
                "requests": {
                    "description": "How much of each resource is asked for.",
                    "type": "object",
                    "properties": {"storage": _described("Size of the volume: 100Gi.", _QUANTITY)},
                    "required": ["storage"],
                },
            },
            "requests",
        )
    ),
]
"""`requests.storage` of a claim."""

_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 63}
_ANY: Final[Schema] = {"type": "object", _PRESERVE: True}
_CONTAINER: Final = _open(
    {
        "name": _described("Name of the container, unique in its Pod.", _NAME),
        "image": _described("Image that is run.", {"type": "string"}),
        "args": _described("Arguments of the command.", _list({"type": "string"})),
        "command": _described(
            "What is run instead of the image's entrypoint.", _list({"type": "string"})
        ),
        "env": _described("Environment variables.", _list(_ANY)),
        "ports": _described("Ports that the container listens on.", _list(_ANY)),
        "volumeMounts": _described("Where the Pod's volumes are mounted.", _list(_ANY)),
    },
    "name",
)
_VOLUME: Final = _open(
    {"name": _described("Name of the volume, unique in its Pod.", _NAME)}, "name"
)

NamedContainer = Annotated[dict[str, Any], WithJsonSchema(_CONTAINER)]
"""A container, as the server takes it; it has a name."""

NamedVolume = Annotated[dict[str, Any], WithJsonSchema(_VOLUME)]
"""A volume, as the server takes it; it has a name."""

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

PodSpec = Annotated[
    dict[str, Any],
    WithJsonSchema(
        _open(
            {
                "affinity": _described(
                    "Which nodes and which other Pods it is scheduled near to.",
                    _open(
                        {
                            "podAffinity": _described(
                                "Which other Pods it is scheduled near to.",
                                _open(
                                    {_PREFERRED: _described("Preferences by weight.", _list(_ANY))}
                                ),
                            )
                        }
                    ),
                ),
                "containers": _described(
                    "Containers of the Pod.", {**_list(_CONTAINER), "minItems": 1}
                ),
                "initContainers": _described(
                    "Containers that finish, in order, before the others start.",
                    _list(_CONTAINER),
                ),
                "volumes": _described("Volumes that containers can mount.", _list(_VOLUME)),
            },
            "containers",
        )
    ),
]
"""A Pod's spec, as the server takes it."""

ServicePort = Annotated[
    dict[str, Any],
    WithJsonSchema(
        _open(
            {
                "name": _described("Name of the port.", {"type": "string", "maxLength": 63}),
                "port": _described(
                    "Port that the Service listens on.",
                    {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
                ),
            }
        )
    ),
]
"""A port of a Service, as the server takes it."""
