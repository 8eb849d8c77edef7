"""Answers that describe the server: discovery and OpenAPI."""

from __future__ import annotations

from typing import Any, Final

import orjson

from ctrlruntime.envtest.server import discovery
from ctrlruntime.envtest.server.accept import clauses
from ctrlruntime.envtest.server.document import Answer, Document
from ctrlruntime.envtest.server.errors import not_acceptable
from ctrlruntime.envtest.server.kinds import Catalog
from ctrlruntime.envtest.server.openapi import OpenAPI
from ctrlruntime.envtest.server.request import Request

_JSON: Final = "application/json"
_ACCEPTED: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_AGGREGATED: Final = ("v2", "v2beta1")


class Descriptions:
    """Discovery and OpenAPI of one server, in step with its catalog."""

    def __init__(self, catalog: Catalog, version: str) -> None:
        self._catalog = catalog
        self._openapi = OpenAPI(catalog, version)
        self._aggregated: dict[tuple[str, str], tuple[int, Document]] = {}

    def answer(self, path: str, request: Request) -> Answer | None:
        """None where the path describes nothing. Raises NotAcceptable."""
        if path.startswith("/openapi/"):
            return self._openapi.answer(path, request)
        if path in {"/api", "/apis"}:
            version = _negotiate(request)
            if version:
                return self._aggregate(path, version).answer(request)
        body = self._plain(path, request)
        if body is None:
            return None
        _check_json(request)
        return Answer(200, orjson.dumps(body), _JSON)

    def _aggregate(self, path: str, version: str) -> Document:
        revision = self._catalog.revision
        cached = self._aggregated.get((path, version))
        if cached is not None and cached[0] == revision:
            return cached[1]
        body = discovery.aggregated(self._catalog, version, core=path == "/api")
        content_type = f"{_JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        document = Document(orjson.dumps(body), content_type)
        self._aggregated[path, version] = revision, document
        return document

    def _plain(self, path: str, request: Request) -> dict[str, Any] | None:
        match path.strip("/").split("/"):
            case ["api"]:
                return discovery.api_versions(request.headers.get("Host", ""))
            case ["apis"]:
                return discovery.api_group_list(self._catalog)
            case ["api", version]:
                return discovery.api_resource_list(self._catalog, "", version)
            case ["apis", group, version]:
                return discovery.api_resource_list(self._catalog, group, version)
            case ["apis", group]:
                versions = discovery.group_versions(self._catalog).get(group)
                if versions is not None:
                    body = discovery.api_group(group, versions)
                    return {"kind": "APIGroup", "apiVersion": "v1", **body}
        return None


def _negotiate(request: Request) -> str:
    """Return the version of aggregated discovery to answer with, empty for the plain form."""
    for clause in clauses(request.headers.get("Accept", "")):
        wanted = clause.parameters.get("as")
        if not wanted and clause.covers(_JSON):
            return ""
        if (
            clause.media == _JSON
            and wanted == "APIGroupDiscoveryList"
            and clause.parameters.get("g") == "apidiscovery.k8s.io"
            and clause.parameters.get("v") in _AGGREGATED
        ):
            return clause.parameters["v"]
    raise not_acceptable(_ACCEPTED)


def _check_json(request: Request) -> None:
    accepted = clauses(request.headers.get("Accept", ""))
    if not any(c.covers(_JSON) and "as" not in c.parameters for c in accepted):
        raise not_acceptable(_ACCEPTED)
