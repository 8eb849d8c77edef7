"""Secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, required, too_long
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
    defaults=Defaults({"type": "Opaque"}, rules=(_string_data,)),
    rules=Rules(checks=(config_keys, _secret_types, _secret_size)),
    updates=(fixed("type"), immutable_data),
    columns="Name | Type | Data | Age",
    cells=_cells,
)
