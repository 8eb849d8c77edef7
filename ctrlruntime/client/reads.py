"""Live reads: one object, lists in pages, watches."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar, overload

import msgspec
import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import KindRef, Resource, UntypedKindRef
from ctrlruntime.client.answer_limits import AnswerTooLarge, PageLimit
from ctrlruntime.client.calling import METADATA_ONLY_LIST, Caller, as_json, decode, reading_of
from ctrlruntime.client.errors import NotFound, error_of_status
from ctrlruntime.client.selectors import FieldSelector, LabelSelector, field_text, label_text
from ctrlruntime.client.transport import list_meta
from ctrlruntime.client.unreadable import ODD_SHAPES, reading
from ctrlruntime.intake.limits import Malformed
from ctrlruntime.intake.shallow import items_of, split_members_or_fail

R = TypeVar("R", bound=Resource[Any, Any])
Item = TypeVar("Item")
ObjectList: TypeAlias = list[R]
Manifests: TypeAlias = list[Manifest]
Objects: TypeAlias = list[Any]

PAGE = 500


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Item]):
    """One page of a list. ``continue_`` is None on the last."""

    items: list[Item]
    resource_version: str
    continue_: str | None


class _Items(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_items_decoder = msgspec.json.Decoder(_Items)


def list_items(body: bytes) -> Iterable[msgspec.Raw]:
    """Return the items of a list, undecoded; they share the body's memory.

    Those of a list that the decoder cannot pass over are searched while they are iterated over, a few milliseconds for
    each. Raises msgspec.DecodeError, which may come while iterating.
    """
    try:
        return _items_decoder.decode(body).items or []
    except (RecursionError, msgspec.DecodeError):
        return _searched(body)


def _searched(body: bytes) -> Iterator[msgspec.Raw]:
    try:
        yield from map(msgspec.Raw, items_of(body, "items"))
    except Malformed as error:
        raise msgspec.DecodeError(str(error)) from None


def selector_params(labels: LabelSelector | None, fields: FieldSelector | None) -> dict[str, str]:
    """Return the query of a list or watch."""
    params = {}
    if text := label_text(labels):
        params["labelSelector"] = text
    if text := field_text(fields):
        params["fieldSelector"] = text
    return params


class Reader(Caller):
    """Every read goes to the server."""

    @overload
    async def get(
        self, kind: type[R], name: str, *, namespace: str | None = None, metadata_only: bool = False
    ) -> R: ...
    @overload
    async def get(
        self,
        kind: UntypedKindRef,
        name: str,
        *,
        namespace: str | None = None,
        metadata_only: bool = False,
    ) -> Manifest: ...
    async def get(
        self, kind: KindRef, name: str, *, namespace: str | None = None, metadata_only: bool = False
    ) -> Any:
        """One object. With ``metadata_only`` always a manifest, with apiVersion, kind and metadata alone.

        Raises LimitExceeded for one that is nested too deep, of which the metadata alone can be read.
        """
        call = await self._call("get", kind, name, namespace=namespace, metadata_only=metadata_only)
        body = (await self._execute(call)).body
        with reading_of(call):
            return decode(body, kind, call.mapping, metadata_only)

    @overload
    async def list(
        self,
        kind: type[R],
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        limit: int | None = None,
        metadata_only: bool = False,
    ) -> ObjectList[R]: ...
    @overload
    async def list(
        self,
        kind: UntypedKindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        limit: int | None = None,
        metadata_only: bool = False,
    ) -> Manifests: ...
    async def list(
        self,
        kind: KindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        limit: int | None = None,
        metadata_only: bool = False,
    ) -> Objects:
        """All objects of one namespace (None: of all), or the first ``limit``. Read in pages."""
        found: Objects = []
        pages = self.pages(
            kind,
            namespace,
            labels=labels,
            fields=fields,
            limit=min(limit or PAGE, PAGE),
            metadata_only=metadata_only,
        )
        async with aclosing(pages):
            async for page in pages:
                found += page.items
                if limit and len(found) >= limit:
                    return found[:limit]
        return found

    async def pages(
        self,
        kind: KindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        limit: int = PAGE,
        continue_: str | None = None,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        metadata_only: bool = False,
    ) -> AsyncGenerator[ListPage[Any], None]:
        """Yield a list page by page. Raises Expired when the list grew too old between pages: start anew."""
        params = selector_params(labels, fields)
        size = PageLimit(self.transport.limits, limit)
        if limit:
            params["limit"] = str(limit)
        if resource_version is not None:
            params["resourceVersion"] = resource_version
        if resource_version_match is not None:
            params["resourceVersionMatch"] = resource_version_match
        while True:
            if continue_:
                params["continue"] = continue_
                params.pop("resourceVersion", None)
                params.pop("resourceVersionMatch", None)
            try:
                page = await self._page(kind, namespace, params, metadata_only, size)
            except AnswerTooLarge:
                if not size.shrink():
                    raise
                params["limit"] = str(size.limit)
                continue
            yield page
            continue_ = page.continue_
            if not continue_:
                return

    async def _page(
        self,
        kind: KindRef,
        namespace: str | None,
        params: Mapping[str, str],
        metadata_only: bool,
        size: PageLimit,
    ) -> ListPage[Any]:
        call = await self._call("list", kind, None, namespace=namespace, params=params)
        if metadata_only:
            call = replace(call, headers={"Accept": METADATA_ONLY_LIST})
        body = (await self._execute(call)).body
        size.count(body)
        with reading_of(call):
            items = [decode(raw, kind, call.mapping, metadata_only) for raw in list_items(body)]
            meta = list_meta(body)
        return ListPage(items, meta.resource_version, meta.continue_ or None)

    async def watch(
        self,
        kind: KindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        resource_version: str | None = None,
        timeout: float = 300.0,
    ) -> AsyncGenerator[tuple[str, Any], None]:
        """Event type and object, for a while; for lasting watches declare an informer instead.

        Raises the APIError of an ERROR event (Expired, when ``resource_version`` is too old), TransportError
        for a line that is no event, and LimitExceeded for an object that is nested too deep.
        """
        mapping = await self.mapping(kind)
        params = {"watch": "true", "timeoutSeconds": str(int(timeout))}
        params |= selector_params(labels, fields)
        if resource_version is not None:
            params["resourceVersion"] = resource_version
        path = mapping.path(namespace=self._namespace(mapping, namespace))
        lines = self.transport.watch_lines(
            path, params, inactivity=timeout + 30.0, timeout=timeout + 30.0
        )
        try:
            async with aclosing(lines):
                async for line in lines:
                    with reading("GET", path, *ODD_SHAPES):
                        event = split_members_or_fail(line)
                        type_ = str(orjson.loads(event["type"]))
                        raw = event["object"]
                        if type_ == "ERROR":
                            raise error_of_status(as_json(raw))
                    with reading("GET", path):
                        obj = decode(raw, kind, mapping, metadata_only=False)
                    yield type_, obj
        except NotFound as error:
            raise (error.of_kind(mapping) if error.is_of_kind else error) from None

    async def get_subresource(
        self, kind: KindRef, name: str, subresource: str, *, namespace: str | None = None
    ) -> Manifest:
        """As it comes: a Scale, or the object itself for ``status``."""
        call = await self._call("get", kind, name, namespace=namespace, subresource=subresource)
        body = (await self._execute(call)).body
        with reading_of(call):
            return as_json(body)

    async def get_scale(
        self, kind: KindRef, name: str, *, namespace: str | None = None
    ) -> Manifest:
        """Return the autoscaling/v1 Scale of an object."""
        return await self.get_subresource(kind, name, "scale", namespace=namespace)
