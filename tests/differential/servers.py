"""The two servers: the same request to both, each with its own resourceVersions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson

from ctrlruntime.client.config import Config
from tests.differential.requests import LIVE_VERSION, NAME, Step


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said. `wrote`: the object has another resourceVersion than when last seen;
    None where the answer shows none."""

    code: int
    body: Any
    wrote: bool | None = None
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Server:
    """One of the two, over kept connections."""

    config: Config
    versions: dict[str, str] = field(default_factory=dict)
    """The last resourceVersion seen, by path of the object."""
    _session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Server:
        headers = {"User-Agent": "differential", "Accept": "application/json"}
        headers |= await self.config.auth.headers()
        connector = aiohttp.TCPConnector(ssl=self.config.ssl_context() or True, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, headers=headers)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, step: Step, name: str = "") -> Answer:
        assert self._session is not None
        path = step.path.replace(NAME, name)
        place = _object_path(step, path, name)
        data = None
        if step.body is not None:
            text = orjson.dumps(step.body).decode().replace(NAME, name)
            data = text.replace(LIVE_VERSION, self.versions.get(place, "1")).encode()
        url = self.config.host + quote(path, safe="/?&=")
        headers = {"Content-Type": step.content_type}
        async with self._session.request(step.method, url, data=data, headers=headers) as answer:
            raw = await answer.read()
            warnings = tuple(answer.headers.getall("Warning", ()))
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return Answer(answer.status, raw.decode(), None, warnings)
        wrote = None if step.method == "DELETE" else self._wrote(place, body)
        return Answer(answer.status, body, wrote, warnings)

    def _wrote(self, place: str, body: object) -> bool | None:
        if not isinstance(body, dict) or body.get("kind") == "Status" or "items" in body:
            return None
        version: str | None = (body.get("metadata") or {}).get("resourceVersion")
        if version is None:
            return None
        before = self.versions.get(place)
        self.versions[place] = version
        return before != version


def _object_path(step: Step, path: str, name: str) -> str:
    place = path.partition("?")[0]
    if step.method == "POST":
        return f"{place}/{name}"
    return place.removesuffix("/status").removesuffix("/scale")


@dataclass(frozen=True, slots=True)
class Pair:
    """A real server and the embedded one."""

    real: Server
    embedded: Server

    async def send(self, step: Step, name: str = "") -> tuple[Answer, Answer]:
        answers = await asyncio.gather(self.real.send(step, name), self.embedded.send(step, name))
        return answers[0], answers[1]
