"""A client of a few lines: what is tested is the wire."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import orjson

from ctrlruntime.envtest.backends import Version
from ctrlruntime.json import Json

from .releases import has

if TYPE_CHECKING:
    from ctrlruntime.envtest.server import APIServer

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
_OWN_FINALIZERS: Final = {"CustomResourceDefinition", "Namespace"}
_PATIENCE: Final = 60.0
"""Seconds that anything awaited may take."""


class Api:
    """One user's access to the server under test, in a namespace of the test's own."""

    def __init__(self, url: str, session: aiohttp.ClientSession, token: str = "") -> None:
        self.url = url
        self.session = session
        self.headers = {"User-Agent": "tests/1"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.namespace = "default"
        self.group = "own.example.com"
        """A group of the test's own, for definitions that it changes."""
        self.server: APIServer | None = None
        """The embedded server, where the test runs on that."""
        self.version: Version = (0, 0)
        """The release of the server, (1, 36) for 1.36."""
        self.user_token = ""
        """Token of `alice`, who has no rights until the test binds some."""
        self.made: list[str] = []
        """Paths of the objects that were made, oldest first."""

    def as_user(self, token: str) -> Api:
        """The same server for another user; no token is nobody."""
        found = Api(self.url, self.session, token)
        found.namespace, found.group = self.namespace, self.group
        found.version, found.made = self.version, self.made
        return found

    def has(self, change: str) -> bool:
        """Whether the server behaves as the table of releases says."""
        return has(change, self.version)

    def named(self, name: str) -> str:
        """A name outside of the namespace that no other test takes."""
        return f"{name}-{self.namespace}"

    @property
    def configmaps(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    @property
    def secrets(self) -> str:
        """Nobody else makes any, unlike ConfigMaps."""
        return f"/api/v1/namespaces/{self.namespace}/secrets"

    def path(self, group_version: str, plural: str) -> str:
        root = "/api" if "/" not in group_version else "/apis"
        return f"{root}/{group_version}/namespaces/{self.namespace}/{plural}"

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
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
            if answer.status == 201 and "dryRun" not in path:
                self._note(method, path.partition("?")[0], found)
            return answer.status, found, answer.headers

    def _note(self, method: str, path: str, found: object) -> None:
        if not isinstance(found, dict):
            return
        name = (found.get("metadata") or {}).get("name")
        if name and found["kind"] not in {"Binding", "Eviction", "Status", "TokenRequest"}:
            self.made.append(f"{path}/{name}" if method == "POST" else path)

    async def clean(self) -> None:
        """Delete what was made; what is outside of the namespace, one by one until it is gone."""
        made, self.made = self.made, []
        inside = [path for path in made if f"/namespaces/{self.namespace}/" in path]
        await asyncio.gather(*(self._remove(path) for path in inside))
        for path in reversed(made):
            if path not in inside and await self._remove(path):
                await self.gone(path)

    async def _remove(self, path: str) -> bool:
        """Whether it is an object whose end is worth waiting for."""
        body = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        status, found, _ = await self.send("DELETE", path, body)
        if status >= 300 or found["kind"] == "Status":
            return False
        if found["metadata"].get("finalizers") and found["kind"] not in _OWN_FINALIZERS:
            await self.send("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
        return bool(found["kind"] == "CustomResourceDefinition")

    async def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Json:
        """The answer to a request that must succeed."""
        status, answer, _ = await self.send(method, path, body, content_type)
        assert status < 300, answer if isinstance(answer, bytes) else answer["message"]
        return answer

    async def refusal(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Json:
        """The Status of a request that must fail."""
        status, answer, _ = await self.send(method, path, body, content_type)
        assert status >= 400, answer
        assert answer["kind"] == "Status"
        assert answer["code"] == status
        return answer

    async def fails(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, str, str]:
        """Code, reason and message of a request that must fail."""
        answer = await self.refusal(method, path, body, content_type)
        return answer["code"], answer.get("reason", ""), answer["message"]

    async def causes(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> list[tuple[str, str, str]]:
        """Field, reason and message of each cause of a 422, in order of fields."""
        answer = await self.refusal(method, path, body, content_type)
        assert answer["code"] == 422, answer
        found = answer["details"].get("causes") or ()
        return sorted((item.get("field", ""), item["reason"], item["message"]) for item in found)

    async def get(self, path: str) -> Json:
        return await self.call("GET", path)

    async def create(self, path: str, obj: object) -> Json:
        return await self.call("POST", path, obj)

    async def merge(self, path: str, patch: object) -> Json:
        return await self.call("PATCH", path, patch, MERGE)

    async def apply(self, path: str, obj: object, manager: str = "m", **query: str) -> Json:
        extra = "".join(f"&{name}={value}" for name, value in query.items())
        return await self.call("PATCH", f"{path}?fieldManager={manager}{extra}", obj, APPLY)

    async def gone(self, path: str) -> None:
        """Wait until the object is not there any more."""
        await self.until(path, lambda found: found is None)

    async def until(self, path: str, true: Callable[[Any], bool]) -> Json:
        """Wait until the object (None: absent) satisfies the condition."""
        pause = 0.002 if self.server is not None else 0.02
        async with asyncio.timeout(_PATIENCE):
            while True:
                status, found, _ = await self.send("GET", path)
                found = None if status == 404 else found
                if true(found):
                    return found
                await asyncio.sleep(pause)

    async def next_second(self) -> None:
        """Wait until the server writes another time than now: timestamps are in seconds."""
        first = (await self.send("GET", "/version"))[2]["Date"]
        async with asyncio.timeout(_PATIENCE):
            while True:
                await asyncio.sleep(0.05)
                if (await self.send("GET", "/version"))[2]["Date"] != first:
                    return

    @asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator[Stream]:
        """Open a watch. A server that still reads a new kind answers 429 with the time to wait, for at most a minute."""
        sent = {**self.headers, **headers}
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(60.0):
                while True:
                    answer = await stack.enter_async_context(
                        self.session.get(self.url + path, headers=sent)
                    )
                    if answer.status != 429:
                        break
                    await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
            assert answer.status == 200, await answer.text()
            yield Stream(answer)


class Stream:
    """Events of a watch."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> Json:
        async with asyncio.timeout(_PATIENCE):
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
