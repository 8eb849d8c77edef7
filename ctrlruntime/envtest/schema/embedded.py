"""Objects inside objects: ``x-kubernetes-embedded-resource``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ctrlruntime.envtest.schema import causes
from ctrlruntime.envtest.schema.causes import Cause
from ctrlruntime.envtest.schema.structural import Structural

_KIND = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_BAD_KIND = (
    "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case "
    "alphanumeric characters or '-', start with an alphabetic character, and end with an "
    "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def has_embedded(node: Structural) -> bool:
    """Whether there may be an embedded object anywhere."""
    return node.embedded or any(has_embedded(child) for child in node.children())


def check_embedded(value: object, node: Structural, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the apiVersion and kind of embedded objects."""
    if isinstance(value, list):
        if node.items is not None:
            for index, item in enumerate(value):
                yield from check_embedded(item, node.items, f"{path}[{index}]")
    elif isinstance(value, dict):
        if node.embedded:
            yield from _type_meta(value, path)
        for name, item in value.items():
            child = node.child(name)
            if child is not None and isinstance(item, dict | list):
                yield from check_embedded(item, child, f"{path}.{name}" if path else name)


def embedded_metadata(value: object, node: Structural, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the metadata of every embedded object and where it lies."""
    if isinstance(value, list):
        if node.items is not None:
            for index, item in enumerate(value):
                yield from embedded_metadata(item, node.items, f"{path}[{index}]")
    elif isinstance(value, dict):
        if node.embedded and "metadata" in value:
            yield f"{path}.metadata", value["metadata"]
        for name, item in value.items():
            child = node.child(name)
            if child is not None and isinstance(item, dict | list):
                yield from embedded_metadata(item, child, f"{path}.{name}" if path else name)


def _type_meta(value: dict[str, Any], path: str) -> Iterator[Cause]:
    version, kind = value.get("apiVersion"), value.get("kind")
    if not version:
        yield causes.required(f"{path}.apiVersion")
    elif isinstance(version, str) and version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        yield causes.invalid(f"{path}.apiVersion", version, detail)
    if not kind:
        yield causes.required(f"{path}.kind")
    elif isinstance(kind, str) and not (len(kind) <= 63 and _KIND.fullmatch(kind.lower())):
        yield causes.invalid(f"{path}.kind", kind, _BAD_KIND)
