"""An API server for each test, or the one that CTRLRUNTIME_TEST_SERVER names.

Set CTRLRUNTIME_TEST_SERVER to a URL, CTRLRUNTIME_TEST_TOKEN to the token of an administrator and
CTRLRUNTIME_TEST_USER_TOKEN to that of a user `alice` without rights, to run these tests against
another API server. What a test makes there is deleted after it. Tests are marked

- `since("...")` where an older release differs, see `releases.CHANGES`;
- `embedded("why")` where they reach into the server: its clock, its options;
- `custom` where they need nothing but custom resources, and so run on a bare apiextensions-apiserver.
"""

from __future__ import annotations

import asyncio
import io
import os
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import orjson
import pytest

from ctrlruntime.envtest.server import APIServer, ServerOptions
from tests.envtest.releases import CHANGES

URL: Final = os.environ.get("CTRLRUNTIME_TEST_SERVER", "")
TOKEN: Final = os.environ.get("CTRLRUNTIME_TEST_TOKEN", "")
USER_TOKEN: Final = os.environ.get("CTRLRUNTIME_TEST_USER_TOKEN", "")
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "since(change): shows what a later release changed, see tests/envtest/releases.py",
        "embedded(why): reaches into the embedded server",
        "custom: needs nothing but custom resources",
    ):
        config.addinivalue_line("markers", line)


class Api:
    """A client of a few lines: what is tested is the wire."""

    def __init__(self, url: str, session: aiohttp.ClientSession, token: str = "") -> None:
        self.url = url
        self.session = session
        self.headers = {"User-Agent": "tests/1"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.namespace = "default"
        self.server: APIServer | None = None
        self.made: list[str] = []
        """Paths of the objects that were made outside of the namespace, oldest first."""

    @property
    def configmaps(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    def path(self, group_version: str, plural: str) -> str:
        root = "/api" if "/" not in group_version else "/apis"
        return f"{root}/{group_version}/namespaces/{self.namespace}/{plural}"

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        **headers: str,
    ) -> tuple[int, Any, Any]:
        raw_body = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        data = None if raw_body is None else io.BytesIO(raw_body)
        sent = {
            **self.headers,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        if data is not None:
            sent["Content-Type"] = content_type
        async with self.session.request(method, self.url + path, data=data, headers=sent) as answer:
            raw = await answer.read()
            is_json = answer.content_type == "application/json" and raw
            found = orjson.loads(raw) if is_json else raw
            if answer.status == 201:
                self._note(method, path.partition("?")[0], found)
            return answer.status, found, answer.headers

    def _note(self, method: str, path: str, found: Any) -> None:
        name = (found.get("metadata") or {}).get("name")
        if name and f"/namespaces/{self.namespace}/" not in path:
            self.made.append(f"{path}/{name}" if method == "POST" else path)

    async def clean(self) -> None:
        """Delete what was made outside of the namespace and wait until it is gone."""
        made, self.made = self.made, []
        for path in reversed(made):
            status, found, _ = await self.send("GET", path)
            if status == 404:
                continue
            if found["metadata"].get("finalizers") and found["kind"] not in _OWN_FINALIZERS:
                await self.send("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
            await self.send("DELETE", path)
            if found["kind"] != "Namespace":
                await self.gone(path)

    async def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        """The answer to a request that must succeed."""
        status, answer, _ = await self.send(method, path, body, content_type)
        assert status < 300, answer
        return answer

    async def fails(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, str, str]:
        """Code, reason and message of a request that must fail."""
        status, answer, _ = await self.send(method, path, body, content_type)
        assert status >= 400, answer
        assert answer["kind"] == "Status"
        assert answer["code"] == status
        return status, answer.get("reason", ""), answer["message"]

    async def get(self, path: str) -> Any:
        return await self.call("GET", path)

    async def create(self, path: str, obj: Any) -> Any:
        return await self.call("POST", path, obj)

    async def merge(self, path: str, patch: Any) -> Any:
        return await self.call("PATCH", path, patch, MERGE)

    async def apply(self, path: str, obj: Any, manager: str = "m", **query: str) -> Any:
        extra = "".join(f"&{name}={value}" for name, value in query.items())
        return await self.call("PATCH", f"{path}?fieldManager={manager}{extra}", obj, APPLY)

    async def gone(self, path: str) -> None:
        """Wait until the object is not there any more."""
        await self.until(path, lambda found: found is None)

    async def until(self, path: str, true: Callable[[Any], bool]) -> Any:
        """Wait until the object (None: absent) satisfies the condition."""
        async with asyncio.timeout(10):
            while True:
                status, found, _ = await self.send("GET", path)
                found = None if status == 404 else found
                if true(found):
                    return found
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator[Stream]:
        sent = {**self.headers, **headers}
        async with self.session.get(self.url + path, headers=sent) as answer:
            assert answer.status == 200, await answer.text()
            yield Stream(answer)


_OWN_FINALIZERS: Final = {"CustomResourceDefinition", "Namespace"}


class Stream:
    """Events of a watch."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> Any:
        async with asyncio.timeout(10):
            line = await self._answer.content.readline()
        return orjson.loads(line) if line else None

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Type and object name of the next events."""
        found = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in found]

    async def rest(self) -> list[Any]:
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found


@pytest.fixture
def options() -> ServerOptions:
    """Override in a test module to run the server otherwise."""
    return ServerOptions()


@pytest.fixture
async def api(request: pytest.FixtureRequest, options: ServerOptions) -> AsyncIterator[Api]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        if not URL:
            async with APIServer(options) as server:
                api = Api(server.url, session)
                api.server = server
                yield api
            return
        api = Api(URL, session, TOKEN)
        await _skip_what_differs(request, api)
        api.namespace = f"t-{uuid.uuid4().hex[:8]}"
        namespaces = "/api/v1/namespaces"
        await api.send("POST", namespaces, {"metadata": {"name": api.namespace}})
        try:
            yield api
        finally:
            api.headers["Authorization"] = f"Bearer {TOKEN}"
            await api.clean()


async def _skip_what_differs(request: pytest.FixtureRequest, api: Api) -> None:
    """Skip what this server, an older or a smaller one, cannot show."""
    for mark in request.node.iter_markers("embedded"):
        pytest.skip(f"embedded server only: {mark.args[0]}")
    minor = int((await api.get("/version"))["minor"].rstrip("+"))
    for mark in request.node.iter_markers("since"):
        change = CHANGES[mark.args[0]]
        if minor < change.release:
            pytest.skip(f"since 1.{change.release}: {change.reason}")
    whole = (await api.send("GET", "/api/v1"))[0] == 200
    if not whole and request.node.get_closest_marker("custom") is None:
        pytest.skip("this server has custom resources only")


def configmap(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {"a": "1"},
    }


def deployment(name: str, image: str = "nginx:1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "nginx:1"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def widget(name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": spec or {"size": 1},
    }


WIDGET_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "color": {"type": "string", "default": "red", "enum": ["red", "green"]},
                "replicas": {"type": "integer", "default": 1},
                "hub": {
                    "type": "string",
                    "x-kubernetes-validations": [
                        {"rule": "self == oldSelf", "message": "hub is immutable"}
                    ],
                },
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}},
        },
    },
}


def definition(**version: Any) -> dict[str, Any]:
    """The CustomResourceDefinition of Widget."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": WIDGET_SCHEMA},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                        },
                    },
                    **version,
                }
            ],
        },
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
async def widgets(api: Api) -> str:
    """The path of Widgets, whose definition is there and served."""
    status, answer, _ = await api.send("POST", DEFINITIONS, definition())
    assert status in {201, 409}, answer
    path = f"/apis/example.com/v1/namespaces/{api.namespace}/widgets"
    await served(api, path)
    return path


async def served(api: Api, path: str) -> None:
    """Wait until the objects of a new definition can be listed and written.

    A real server learns of its own definitions with a delay.
    """
    await api.until(path, lambda found: found is not None)
    if api.server is None:
        await api.until(
            f"{DEFINITIONS}/{path.rpartition('/')[2]}.{path.split('/')[2]}",
            lambda found: bool((found.get("status") or {}).get("conditions")),
        )
