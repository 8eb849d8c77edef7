"""Schemas of kinds as the API server publishes them under `/openapi/v3`, fetched on use and kept.

Nothing is fetched before a schema is looked up, and nothing periodically.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.transport import Transport
from ctrlruntime.client.unreadable import reading

__all__ = ["OpenAPISchemas", "Schema", "Schemas"]

_INDEX: Final = "/openapi/v3"
_COMPONENTS: Final = "#/components/schemas/"


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class Schema(msgspec.Struct, frozen=True, kw_only=True, dict=False):
    """What is kept of one schema; a field that the server does not set is empty or None."""

    ref: str = msgspec.field(name="$ref", default="")
    type: str = ""
    format: str = ""
    properties: Mapping[str, Schema] = {}
    additional: bool | Schema | None = msgspec.field(name="additionalProperties", default=None)
    items: Schema | None = None
    all_of: tuple[Schema, ...] = msgspec.field(name="allOf", default=())
    one_of: tuple[Schema, ...] = msgspec.field(name="oneOf", default=())
    any_of: tuple[Schema, ...] = msgspec.field(name="anyOf", default=())
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    default: Any = None
    open: bool = msgspec.field(name="x-kubernetes-preserve-unknown-fields", default=False)
    int_or_string: bool = msgspec.field(name="x-kubernetes-int-or-string", default=False)
    embedded: bool = msgspec.field(name="x-kubernetes-embedded-resource", default=False)
    kinds: tuple[_Kind, ...] = msgspec.field(name="x-kubernetes-group-version-kind", default=())


class _Components(msgspec.Struct):
    schemas: dict[str, Schema] = {}


class _Document(msgspec.Struct):
    components: _Components


class _Place(msgspec.Struct):
    url: str = msgspec.field(name="serverRelativeURL")


class _IndexDocument(msgspec.Struct):
    paths: dict[str, _Place]


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas of one group and version, by name."""

    by_name: Mapping[str, Schema]

    def of(self, kind: GroupVersionKind) -> Schema | None:
        wanted = _Kind(kind.group, kind.version, kind.kind)
        return next((each for each in self.by_name.values() if each.kinds == (wanted,)), None)

    def resolve(self, schema: Schema) -> tuple[str, Schema]:
        """Return what a reference stands for, with its name; a schema that is none as it is.

        A reference to a name that the document lacks is an empty schema.
        """
        name = ""
        while True:
            if not schema.ref and len(schema.all_of) == 1 and not schema.type:
                schema = schema.all_of[0]
            if not schema.ref:
                return name, schema
            name = schema.ref.removeprefix(_COMPONENTS)
            schema = self.by_name.get(name, Schema())


class OpenAPISchemas:
    """Fetches schemas by group and version.

    `fresh_seconds`: how long the index of documents counts as current; a document whose hash is
    unchanged is not fetched again. `kept`: documents in memory.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Callable[[], float],
        *,
        fresh_seconds: float = 10.0,
        kept: int = 16,
        timeout: float = 2.0,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._kept = kept
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._index: Mapping[str, _Place] = {}
        self._fetched: float | None = None
        self._documents: OrderedDict[str, tuple[str, Schemas]] = OrderedDict()

    async def of(self, group: str, version: str) -> Schemas | None:
        """Return the schemas of a group and version; None if the server does not serve it now.

        Raises APIError or TransportError as `Transport.request` does, and TimeoutError.
        """
        name = f"apis/{group}/{version}" if group else f"api/{version}"
        async with asyncio.timeout(2 * self._timeout), self._turn:
            await self._refresh()
            place = self._index.get(name)
            if place is None:
                self._documents.pop(name, None)
                return None
            known = self._documents.get(name)
            if known is None or known[0] != place.url:
                body = await self._get(place.url)
                with reading("GET", place.url, RecursionError):
                    document = msgspec.json.decode(body, type=_Document)
                known = (place.url, Schemas(document.components.schemas))
                self._documents[name] = known
                while len(self._documents) > self._kept:
                    self._documents.popitem(last=False)
            self._documents.move_to_end(name)
            return known[1]

    async def _refresh(self) -> None:
        now = self._clock()
        if self._fetched is not None and now - self._fetched < self._fresh_seconds:
            return
        body = await self._get(_INDEX)
        with reading("GET", _INDEX):
            self._index = msgspec.json.decode(body, type=_IndexDocument).paths
        self._fetched = now

    async def _get(self, path: str) -> bytes:
        answer = await self._transport.request("GET", path, timeout=self._timeout)
        return answer.body
