"""Secrets."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, required, too_long
from ctrlruntime.envtest.server.kinds.config_map import (
    MOST_DATA,
    config_keys,
    decoded_size,
    immutable_data,
)
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
from ctrlruntime.envtest.server.printers.column import Cells, age, part

_Object = dict[str, Any]


def _string_data(secret: _Object) -> None:
    sent = secret.pop("stringData", None)
    if sent:
        data = secret.get("data") or {}
        for key, text in sent.items():
            data[key] = base64.b64encode(str(text).encode()).decode()
        secret["data"] = data


def _secret_types(obj: _Object, prefix: str) -> Iterator[FieldError]:
    data = obj.get("data") or {}
    needed = {
        "kubernetes.io/tls": ("tls.crt", "tls.key"),
        "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
        "kubernetes.io/dockercfg": (".dockercfg",),
        "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    }
    for key in needed.get(str(obj.get("type")), ()):
        if key not in data:
            yield required(f"{prefix}data[{key}]")
        elif key.startswith(".docker") and (wrong := _no_object(data[key])):
            yield bad_value(f"{prefix}data[{key}]", "<secret contents redacted>", wrong)


def _no_object(text: str) -> str:
    """Return what is wrong with credentials that are no JSON object, in Go's words."""
    try:
        found = json.loads(base64.b64decode(text))
    except ValueError:
        return "invalid character in JSON"
    if isinstance(found, dict) or found is None:
        return ""
    kinds = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}
    return f"json: cannot unmarshal {kinds[type(found)]} into Go value of type map[string]interface {{}}"


def _warnings(new: Manifest, old: Manifest | None) -> Iterator[str]:
    del old
    if new.get("type") == "kubernetes.io/tls":
        text = base64.b64decode(part(new, "data").get("tls.crt") or "")
        if b"-----BEGIN" not in text:
            yield "tls: failed to find any PEM data in certificate input"


def _secret_size(obj: _Object, prefix: str) -> Iterator[FieldError]:
    if sum(map(decoded_size, (obj.get("data") or {}).values())) > MOST_DATA:
        yield too_long(f"{prefix}data", MOST_DATA)


def _cells(obj: Manifest, now: datetime) -> Cells:
    return [obj["metadata"]["name"], obj.get("type") or "", len(part(obj, "data")), age(obj, now)]


SECRET: Final = builtin_kind(
    "",
    "Secret",
    "secrets",
    more_fields=("type",),
    warnings=_warnings,
    defaults=Defaults({"type": "Opaque"}, rules=(_string_data,)),
    rules=Rules(checks=(config_keys, _secret_types, _secret_size)),
    updates=(fixed("type"), immutable_data),
    columns="Name | Type | Data | Age",
    cells=_cells,
)
