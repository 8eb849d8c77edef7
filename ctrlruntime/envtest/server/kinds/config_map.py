"""ConfigMaps, and the rules for data that Secrets share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.errors import FieldError, bad_value, forbidden_field, too_long
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.printers.column import Cells, age, part

_Object = dict[str, Any]
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')"
)


def config_keys(obj: _Object, prefix: str) -> Iterator[FieldError]:
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            if not _CONFIG_KEY.fullmatch(key):
                yield bad_value(f"{prefix}{field}[{key}]", key, _CONFIG_KEY_TEXT)


MOST_DATA: Final = 1024 * 1024


def _config_size(obj: _Object, prefix: str) -> Iterator[FieldError]:
    size = sum(len(text.encode()) for text in (obj.get("data") or {}).values())
    size += sum(map(decoded_size, (obj.get("binaryData") or {}).values()))
    if size > MOST_DATA:
        yield too_long("[]", MOST_DATA)


def decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _data_once(obj: _Object, prefix: str) -> Iterator[FieldError]:
    for key in obj.get("binaryData") or {}:
        if key in (obj.get("data") or {}):
            detail = "duplicate of key present in binaryData"
            yield bad_value(f"{prefix}data[{key}]", key, detail)


def immutable_data(new: _Object, old: _Object) -> Iterator[FieldError]:
    if not old.get("immutable"):
        return
    text = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield forbidden_field("immutable", text)
    for field in ("data", "binaryData"):
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield forbidden_field(field, text)


def _cells(obj: Manifest, now: datetime) -> Cells:
    count = len(part(obj, "data")) + len(part(obj, "binaryData"))
    return [obj["metadata"]["name"], count, age(obj, now)]


CONFIG_MAP: Final = builtin_kind(
    "",
    "ConfigMap",
    "configmaps",
    "cm",
    rules=Rules(checks=(config_keys, _data_once, _config_size)),
    updates=(immutable_data,),
    columns="Name | Data | Age",
    cells=_cells,
)
