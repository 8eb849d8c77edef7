"""Reviews, and an application that answers them over plain HTTP."""

from __future__ import annotations

import base64
import contextlib
import io
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

import aiohttp
import orjson
import structlog
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.json import Json
from ctrlruntime.webhook import Application

JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    code: int
    body: Any

    @property
    def response(self) -> Json:
        return self.body["response"]

    @property
    def patch(self) -> Json:
        return orjson.loads(base64.b64decode(self.response["patch"]))


class Posting:
    """Sends to the application under test."""

    def __init__(self, url: str, registry: CollectorRegistry) -> None:
        self._url = url
        self._registry = registry
        self._session = aiohttp.ClientSession()

    async def __aenter__(self) -> Posting:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def post(
        self, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> Answer:
        data = io.BytesIO(body if isinstance(body, bytes) else orjson.dumps(body))
        sent = JSON if headers is None else headers
        async with self._session.post(self._url + path, data=data, headers=sent) as response:
            text = await response.read()
            return Answer(response.status, orjson.loads(text) if text else None)

    def sample(self, name: str, **labels: str) -> float:
        value = self._registry.get_sample_value(f"controller_runtime_{name}", labels)
        assert value is not None, f"there is no series {name} {labels}"
        return value


@contextlib.asynccontextmanager
async def posting(fill: Callable[[Application], object]) -> AsyncIterator[Posting]:
    """An application, filled by ``fill``, and a client of it."""
    registry = CollectorRegistry()
    application = Application(structlog.get_logger(), registry)
    fill(application)
    app = web.Application()
    app.add_routes(application.routes())
    async with TestServer(app) as server, Posting(str(server.make_url("")), registry) as client:
        yield client


def review(
    new: Manifest | None,
    old: Manifest | None = None,
    *,
    operation: str = "CREATE",
    version: str = "v1",
    **request: object,
) -> Manifest:
    obj = new or old or {}
    gvk = GroupVersionKind.of(obj)
    return {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": gvk.group, "version": gvk.version, "kind": gvk.kind},
            "resource": {"group": gvk.group, "version": gvk.version, "resource": "things"},
            "name": obj.get("metadata", {}).get("name", ""),
            "namespace": "default",
            "operation": operation,
            "userInfo": {"username": "alice", "groups": ["people"], "extra": {"a": ["b"]}},
            "object": new,
            "oldObject": old,
            "dryRun": False,
            "options": {"kind": "CreateOptions"},
            **request,
        },
    }


def conversion_review(
    objects: list[Manifest], version: str, review_version: str = "v1"
) -> Manifest:
    return {
        "apiVersion": f"apiextensions.k8s.io/{review_version}",
        "kind": "ConversionReview",
        "request": {"uid": "c-1", "desiredAPIVersion": version, "objects": objects},
    }
