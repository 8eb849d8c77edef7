"""Schemas of built-in kinds, read piece by piece from the data of ``kubernetes-validate``.

The data is one file of about 1.8 MB. It is scanned once (a few milliseconds) without decoding the
definitions; each is decoded when it is first asked for.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.json import Json

_RELEASE = re.compile(r"v(\d+)\.(\d+)\.(\d+)-local")
_PACKAGES = (
    "io.k8s.api",
    "io.k8s.apimachinery.pkg.apis",
    "io.k8s.apiextensions-apiserver.pkg.apis",
    "io.k8s.kube-aggregator.pkg.apis",
)
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class _File(msgspec.Struct):
    definitions: dict[str, msgspec.Raw] = msgspec.field(name="$defs")


class UnknownKind(KeyError):
    """A kind that the schemas of the release do not hold."""


def _newest() -> bytes:
    root = importlib.resources.files("kubernetes_validate") / "kubernetes-json-schema"
    releases = [
        (tuple(map(int, match.groups())), entry)
        for entry in root.iterdir()
        if (match := _RELEASE.fullmatch(entry.name))
    ]
    if not releases:
        raise UnknownKind("kubernetes-validate holds no schemas; reinstall ctrlruntime[envtest]")
    _, newest = max(releases, key=lambda pair: pair[0])
    return (newest / "_definitions.json").read_bytes()


class Definitions:
    """The definitions of one Kubernetes release, by their OpenAPI names."""

    def __init__(self, data: bytes | None = None) -> None:
        source = _newest() if data is None else data
        self._raw = msgspec.json.decode(source, type=_File).definitions
        self._decoded: dict[str, dict[str, Any]] = {}

    def names(self) -> Iterable[str]:
        return self._raw.keys()

    def get(self, name: str) -> dict[str, Any]:
        """One definition as the data has it: shared, not to be changed."""
        found = self._decoded.get(name)
        if found is None:
            try:
                found = msgspec.json.decode(self._raw[name])
            except KeyError:
                raise UnknownKind(name) from None
            self._decoded[name] = found
        return found

    def resolve(self, schema: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the name (empty: inline) and the body of a schema that may be a reference."""
        ref = schema.get("$ref")
        if ref is None:
            return "", schema
        name = ref.rpartition("/")[2]
        return name, self.get(name)

    def name_of(self, gvk: GroupVersionKind) -> str:
        """Return the definition of a kind. Raises :class:`UnknownKind`."""
        group = gvk.group.partition(".")[0] or "core"
        for package in _PACKAGES:
            name = f"{package}.{group}.{gvk.version}.{gvk.kind}"
            if name in self._raw:
                return name
        raise UnknownKind(str(gvk))


@lru_cache(maxsize=1)
def definitions() -> Definitions:
    """Return the newest release that the installed data ships, loaded at the first call."""
    return Definitions()


def openapi_definition(gvk: GroupVersionKind, *, prefix: str = "#/definitions/") -> dict[str, Any]:
    """Return the OpenAPI schema of a built-in kind; references point to ``prefix`` plus a name."""
    source = definitions()
    return openapi_schema(source.name_of(gvk), prefix=prefix)


def openapi_schema(name: str, *, prefix: str = "#/definitions/") -> dict[str, Any]:
    """One definition by name as OpenAPI has it (single types, no JSON-schema extras)."""
    if name in _SPECIAL:
        return dict(_SPECIAL[name], description=definitions().get(name).get("description", ""))
    shown: dict[str, Any] = _openapi(definitions().get(name), prefix)
    return shown


def openapi_closure(gvks: Iterable[GroupVersionKind]) -> list[str]:
    """Return the names of all definitions that these kinds lead to, sorted."""
    source = definitions()
    found: set[str] = set()
    todo = [source.name_of(gvk) for gvk in gvks]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(_references(source.get(name)))
    return sorted(found)


_SPECIAL: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "type": "string",
        "format": "int-or-string",
    },
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
}


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        ref = schema.get("$ref")
        if isinstance(ref, str):
            yield ref.rpartition("/")[2]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _openapi(schema: object, prefix: str) -> Json:
    if isinstance(schema, list):
        return [_openapi(each, prefix) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            out[key] = prefix + value.rpartition("/")[2]
        elif key == "type" and isinstance(value, list):
            out[key] = single_type(value)
        elif key == "properties":
            out[key] = {name: _openapi(child, prefix) for name, child in value.items()}
        elif key == "enum":
            allowed = [each for each in value if each is not None]
            # The release's data pins apiVersion and kind; the API's own documents do not.
            if len(allowed) > 1:
                out[key] = allowed
        else:
            out[key] = _openapi(value, prefix)
    return out


def single_type(value: object) -> str:
    """Return the one type of a schema: the data writes optional fields as ``["string", "null"]``."""
    if isinstance(value, list):
        return next((str(each) for each in value if each != "null"), "")
    return str(value or "")
