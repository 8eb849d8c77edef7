"""Typed models of the built-in kinds, from the OpenAPI document of a real API server: `make kinds`."""

from __future__ import annotations

import asyncio
import keyword
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pydantic.alias_generators import to_camel

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.resource import plural_of
from ctrlruntime.client.transport import Transport
from ctrlruntime.envtest import Environment
from ctrlruntime.generate import write
from ctrlruntime.kinds.base import BuiltinKind

FOLDER = Path(__file__).parents[1] / "ctrlruntime" / "kinds"
Schema = Mapping[str, Any]

ROOTS = (
    "io.k8s.api",
    "io.k8s.apimachinery.pkg.apis",
    "io.k8s.apiextensions-apiserver.pkg.apis",
    "io.k8s.kube-aggregator.pkg.apis",
)
SCALARS = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "Time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "MicroTime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": "ObjectMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference": "OwnerReference",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "str",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int | str",
}
"""Definitions that the library has types for, or that are written as they are."""
PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "dict[str, Any]",
}
HEAD = ("apiVersion", "kind", "metadata", "spec", "status")
IMPORTS = {
    "Time": "from ctrlruntime.api.scalars import Time",
    "MicroTime": "from ctrlruntime.api.scalars import MicroTime",
    "ObjectMeta": "from ctrlruntime.api.objectmeta import ObjectMeta",
    "OwnerReference": "from ctrlruntime.api.objectmeta import OwnerReference",
    "NoStatus": "from ctrlruntime.api.resource import NoStatus",
    "Any": "from typing import Any",
    "Field": "from pydantic import Field",
    "BuiltinKind": "from ctrlruntime.kinds.base import BuiltinKind",
    "BuiltinModel": "from ctrlruntime.kinds.base import BuiltinModel",
    "SpeclessKind": "from ctrlruntime.kinds.base import SpeclessKind",
}
TAKEN = frozenset(name for name in dir(BuiltinKind) if not name.startswith("_")) - set(HEAD)
"""Names of methods, which a field must not hide."""


@dataclass(frozen=True, order=True)
class Place:
    """A class: its module below ``ctrlruntime.kinds``, and its name."""

    module: str
    name: str

    @classmethod
    def of(cls, definition: str) -> Place | None:
        """Return where a definition goes; None for one that is no class."""
        for root in ROOTS:
            if definition.startswith(f"{root}."):
                group, version, name = definition.removeprefix(f"{root}.").split(".")
                return cls(f"{group}.{version}", name)
        return None


@dataclass
class Models:
    """The classes of one document."""

    definitions: Mapping[str, Schema]
    modules: dict[str, dict[str, str]] = field(default_factory=dict)
    """By module and class, its text."""
    used: dict[str, set[str]] = field(default_factory=dict)
    """By module, the names that it imports."""
    done: set[str] = field(default_factory=set)

    def add_kinds(self) -> None:
        """Add every built-in kind of a stable version, and what they are made of."""
        for name, schema in sorted(self.definitions.items()):
            for each in schema.get("x-kubernetes-group-version-kind", ()):
                gvk = GroupVersionKind(each["group"], each["version"], each["kind"])
                if gvk in BUILTIN and name.endswith(f".{gvk.kind}"):
                    self._kind(name, gvk)

    def files(self) -> dict[str, str]:
        """Return the modules and the packages around them, by path."""
        files: dict[str, str] = {}
        for module, classes in self.modules.items():
            group, version = module.split(".")
            files[f"{group}/{version}.py"] = "".join(self._module(module, classes))
            files.setdefault(f"{group}/__init__.py", f'"""Typed kinds of the group {group}."""\n')
        return files

    def _module(self, module: str, classes: Mapping[str, str]) -> Iterator[str]:
        yield f'"""Typed kinds of {module.replace(".", "/")}. Made by `make kinds`; changes here are lost."""\n\n'
        yield "from __future__ import annotations\n\n"
        yield "".join(f"{line}\n" for line in sorted(self.used[module]))
        yield f"\n__all__ = {sorted(classes)!r}\n"
        for text in classes.values():
            yield f"\n\n{text}"

    def _kind(self, name: str, gvk: GroupVersionKind) -> None:
        place, schema, mapping = Place.of(name), self.definitions[name], BUILTIN[gvk]
        if place is None:
            return
        properties = schema["properties"]
        spec, status = (
            self._type(place.module, properties[part]) if part in properties else ""
            for part in ("spec", "status")
        )
        parts = [*([spec] if spec else []), status or "NoStatus"]
        name = "BuiltinKind" if spec else "SpeclessKind"
        for each in (name, *parts):
            self._import(place.module, each)
        keywords = [f'group="{gvk.group}"', f'version="{gvk.version}"']
        if plural_of(gvk.kind.lower()) != mapping.plural:
            keywords.append(f'plural="{mapping.plural}"')
        if not mapping.namespaced:
            keywords.append('scope="Cluster"')
        base = f"{name}[{', '.join(parts)}], {', '.join(keywords)}"
        self._class(place, base, schema, skipped=HEAD)

    def _model(self, name: str) -> None:
        place = Place.of(name)
        if name in self.done or place is None:
            return
        self.done.add(name)
        self._import(place.module, "BuiltinModel")
        self._class(place, "BuiltinModel", self.definitions[name])

    def _class(self, place: Place, base: str, schema: Schema, skipped: Iterable[str] = ()) -> None:
        """Add a class after those of its fields."""
        status = place.name.endswith("Status")
        required = set() if status else set(schema.get("required", ()))
        lines = [
            self._field(place.module, wire, inner, required=wire in required)
            for wire, inner in sorted(schema["properties"].items())
            if wire not in skipped
        ]
        about = f"{place.name} of {place.module.replace('.', '/')}."
        text = f'class {place.name}({base}):\n    """{about}"""\n'
        self.modules.setdefault(place.module, {})[place.name] = "\n".join([text, *lines])

    def _field(self, module: str, wire: str, schema: Schema, *, required: bool) -> str:
        name, kind = _snake(wire), self._type(module, schema)
        options = []
        if kind.startswith(("list[", "dict[")) and not required:
            options.append(f"default_factory={kind.partition('[')[0]}")
        elif not required:
            kind += "" if kind == "Any" else " | None"
            options.append("default=None")
        if to_camel(name) != wire:
            options += [f'validation_alias="{wire}"', f'serialization_alias="{wire}"']
        if options == ["default=None"]:
            value = " = None"
        else:
            value = f" = Field({', '.join(options)})" if options else ""
        if "Field(" in value:
            self._import(module, "Field")
        return f"    {name}: {kind}{value}"

    def _type(self, module: str, schema: Schema) -> str:
        """Return a type's text, having added the class that it names."""
        if reference := schema.get("$ref"):
            return self._referenced(module, reference.removeprefix("#/definitions/"))
        if schema.get("type") == "array":
            return f"list[{self._type(module, schema['items'])}]"
        if inner := schema.get("additionalProperties"):
            return f"dict[str, {self._type(module, inner)}]"
        if schema.get("format") == "date-time":
            self._import(module, "Time")
            return "Time"
        kind = PLAIN.get(schema.get("type", ""), "Any")
        if "Any" in kind:
            self._import(module, "Any")
        return kind

    def _referenced(self, module: str, name: str) -> str:
        if name in SCALARS:
            self._import(module, SCALARS[name])
            return SCALARS[name]
        place, schema = Place.of(name), self.definitions[name]
        if place is None or not schema.get("properties"):
            return self._type(module, {k: v for k, v in schema.items() if k != "$ref"})
        self._model(name)
        if place.module != module:
            line = f"from ctrlruntime.kinds.{place.module} import {place.name}"
            self.used.setdefault(module, set()).add(line)
        return place.name

    def _import(self, module: str, name: str) -> None:
        used = self.used.setdefault(module, set())
        if name in IMPORTS:
            used.add(IMPORTS[name])


def _snake(wire: str) -> str:
    """Return the Python name of a field: `clusterIP` is `cluster_ip`, `x-kubernetes-map-type` has no dashes."""
    text = re.sub(r"[^0-9a-zA-Z]+", "_", wire).strip("_")
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text)
    text = re.sub(r"([A-Z]+)([A-Z][a-z])(?!$)", r"\1_\2", text).lower()
    return f"{text}_" if keyword.iskeyword(text) or text in TAKEN else text


async def _document() -> dict[str, Any]:
    async with Environment("kube-apiserver") as environment:
        transport = Transport(environment.config())
        try:
            answer = await transport.request("GET", "/openapi/v2")
        finally:
            await transport.close()
    document: dict[str, Any] = orjson.loads(answer.body)
    return document


def described(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the modules for an OpenAPI v2 document, by path. Their imports are not in order yet."""
    models = Models(document["definitions"])
    models.add_kinds()
    return models.files()


if __name__ == "__main__":
    for path in write(described(asyncio.run(_document())), FOLDER):
        sys.stdout.write(f"{path}\n")
