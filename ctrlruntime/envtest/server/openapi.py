"""OpenAPI documents, each made when it is first asked for and kept until the kinds in it change.

What the built-in kinds contribute never changes, so those parts are kept for good; the parts of
custom kinds are made anew when a definition does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

from ctrlruntime.envtest.server.accept import clauses
from ctrlruntime.envtest.server.discovery import group_versions, kinds_of
from ctrlruntime.envtest.server.document import Answer, Document, digest
from ctrlruntime.envtest.server.errors import not_acceptable
from ctrlruntime.envtest.server.kinds import Catalog, Kind
from ctrlruntime.envtest.server.openapi_paths import Operation, operations, paths
from ctrlruntime.envtest.server.openapi_schemas import builtin_names, builtin_schema, custom_schemas
from ctrlruntime.envtest.server.request import Request

JSON: Final = "application/json"
_V2: Final = "/openapi/v2"
_INDEX: Final = "/openapi/v3"
TEXT: Final = "text/plain; charset=utf-8"
"""What the index is labelled as, though it is JSON."""
_FOREVER: Final = ("Cache-Control", "public, immutable")
_SECURITY: Final = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}


class OpenAPI:
    """Answers `/openapi/v2`, `/openapi/v3` and what is below it."""

    def __init__(self, catalog: Catalog, version: str) -> None:
        self._catalog = catalog
        self._version = version
        self._documents: dict[str, Document] = {}
        self._builtin: dict[str, bytes] = {}

    def answer(self, path: str, request: Request) -> Answer | None:
        """None where the path is not one of these. Raises NotAcceptable."""
        if path != _V2 and not path.startswith(_INDEX):
            return None
        if not any(clause.covers(JSON) for clause in clauses(request.headers.get("Accept", ""))):
            raise not_acceptable(JSON)
        if path == _V2:
            return self._document("v2", self._hash_all(), self._v2_json).answer(request)
        if path == _INDEX:
            return self._document("index", self._hash_all(), self._index, TEXT).answer(request)
        return self._group_version(path.removeprefix(_INDEX + "/"), request)

    def _document(
        self, key: str, etag: str, body: Callable[[], bytes], kind: str = JSON
    ) -> Document:
        found = self._documents.get(key)
        if found is None or found.etag != etag:
            found = self._documents[key] = Document(body(), kind, etag)
        return found

    # -- v3 ------------------------------------------------------------------------------

    def _index(self) -> bytes:
        found = {
            name: {"serverRelativeURL": f"{_INDEX}/{name}?hash={self._hash(group, version)}"}
            for name, (group, version) in self._group_versions().items()
        }
        return orjson.dumps({"paths": found})

    def _group_versions(self) -> dict[str, tuple[str, str]]:
        found = {"api/v1": ("", "v1")}
        for group, versions in group_versions(self._catalog).items():
            found |= {f"apis/{group}/{version}": (group, version) for version in versions}
        return found

    def _group_version(self, name: str, request: Request) -> Answer | None:
        place = self._group_versions().get(name)
        if place is None:
            return None
        etag = self._hash(*place)
        asked = request.query.get("hash", "").strip('"')
        if asked and asked != etag:
            location = f"{_INDEX}/{name}?hash={etag}"
            return Answer(301, b"", JSON, [("Location", location)])
        document = self._document(name, etag, lambda: self._v3(*place))
        return document.answer(request, *([_FOREVER] if asked else []))

    def _v3(self, group: str, version: str) -> bytes:
        kinds = [(kind, version) for kind in kinds_of(self._catalog, group, version)]
        schemas = {name: builtin_schema(name, "v3") for name in builtin_names(kinds)}
        for kind, _ in kinds:
            if kind.custom:
                schemas |= custom_schemas(kind, version, "v3")
        return orjson.dumps(
            {
                "openapi": "3.0.0",
                "info": {"title": "Kubernetes", "version": self._version},
                "paths": paths(_operations(kinds), "v3"),
                "components": {
                    "schemas": dict(sorted(schemas.items())),
                    "securitySchemes": _SECURITY,
                },
            }
        )

    # -- hashes: of what the documents are made from, so that none is made for them -------

    def _hash(self, group: str, version: str) -> str:
        parts = [self._version, group, version]
        for kind in kinds_of(self._catalog, group, version):
            parts.append(kind.plural)
            if kind.definition is not None:
                metadata = kind.definition["metadata"]
                parts += [metadata["uid"], str(metadata["generation"])]
        return digest(*parts)

    def _hash_all(self) -> str:
        return digest(*(self._hash(*place) for place in self._group_versions().values()))

    # -- v2 ------------------------------------------------------------------------------

    def _v2_json(self) -> bytes:
        head = {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": self._version},
        }
        custom = self._served(custom=True)
        schemas = b",".join(orjson.dumps(each)[1:-1] for each in _custom_definitions(custom))
        written = orjson.dumps(paths(_operations(custom), "v2"))[1:-1]
        return b"".join(
            (
                orjson.dumps(head)[:-1],
                b',"paths":{',
                _joined(self._kept("paths", self._builtin_paths), written),
                b'},"definitions":{',
                _joined(self._kept("definitions", self._builtin_definitions), schemas),
                b'},"securityDefinitions":',
                orjson.dumps(_SECURITY),
                b',"security":[{"BearerToken":[]}]}',
            )
        )

    def _kept(self, key: str, make: Callable[[], bytes]) -> bytes:
        found = self._builtin.get(key)
        if found is None:
            found = self._builtin[key] = make()
        return found

    def _builtin_paths(self) -> bytes:
        return orjson.dumps(paths(_operations(self._served(custom=False)), "v2"))[1:-1]

    def _builtin_definitions(self) -> bytes:
        names = builtin_names(self._served(custom=False))
        return b",".join(orjson.dumps({name: builtin_schema(name, "v2")})[1:-1] for name in names)

    def _served(self, *, custom: bool) -> list[tuple[Kind, str]]:
        return [
            (kind, version)
            for kind in self._catalog
            if kind.custom == custom
            for version in kind.versions
        ]


def _operations(kinds: Iterable[tuple[Kind, str]]) -> list[Operation]:
    return [each for kind, version in kinds for each in operations(kind, version)]


def _custom_definitions(
    kinds: Iterable[tuple[Kind, str]],
) -> Iterator[dict[str, dict[str, Any]]]:
    for kind, version in kinds:
        yield custom_schemas(kind, version, "v2")


def _joined(*parts: bytes) -> bytes:
    return b",".join(part for part in parts if part)
