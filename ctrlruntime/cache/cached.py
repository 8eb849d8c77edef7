"""A client whose reads come from the cache and whose writes go through to it."""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.api.resource import KindRef, Resource, UntypedKindRef
from ctrlruntime.cache.writethrough import write_through
from ctrlruntime.client.call import Call
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.selectors import FieldSelector, LabelSelector
from ctrlruntime.client.transport import Response

if TYPE_CHECKING:
    from ctrlruntime.cache.cache import Cache

R = TypeVar("R", bound=Resource[Any, Any])
ObjectList: TypeAlias = list[R]
Manifests: TypeAlias = list[Manifest]
Objects: TypeAlias = list[Any]

Consistency = Literal["ryow", "cache", "live"]
"""``ryow``: never older than our own writes, by reading objects in doubt from the server first.
``cache``: what the store holds, without any request. ``live``: from the server."""


class CachedClient(Client):
    """Same methods as Client. Made by ``Cache.client()``.

    Reads of kinds that were not declared raise UndeclaredKind, unless they are ``live``, by the call
    or by ``CacheOptions.live_kinds``. Pages and watches are always live.
    """

    def __init__(self, cache: "Cache") -> None:
        live = cache.live_client
        super().__init__(
            live.transport,
            mapper=live.mapper,
            defaults=live.defaults,
            interceptors=live.interceptors,
        )
        self._cache = cache

    @property
    def cache(self) -> "Cache":
        return self._cache

    @property
    def live(self) -> Client:
        """The client that always reads from the server."""
        return self._cache.live_client

    @overload
    async def get(
        self,
        kind: type[R],
        name: str,
        *,
        namespace: str | None = None,
        metadata_only: bool = False,
        consistency: Consistency = "ryow",
    ) -> R: ...
    @overload
    async def get(
        self,
        kind: UntypedKindRef,
        name: str,
        *,
        namespace: str | None = None,
        metadata_only: bool = False,
        consistency: Consistency = "ryow",
    ) -> Manifest: ...
    async def get(
        self,
        kind: KindRef,
        name: str,
        *,
        namespace: str | None = None,
        metadata_only: bool = False,
        consistency: Consistency = "ryow",
    ) -> Any:
        """Raise NotFound, and what ``Cache.get`` raises."""
        mapping = await self.mapping(kind)
        if self._is_live(mapping, consistency):
            return await super().get(kind, name, namespace=namespace, metadata_only=metadata_only)
        namespace = self._namespace(mapping, namespace)
        if consistency == "ryow" and self._cache.unconfirmed(mapping, name, namespace=namespace):
            await self._cache.refresh(mapping, name, namespace=namespace)
        found = self._cache.get(kind, name, namespace=namespace, metadata_only=metadata_only)
        if found is None:
            raise NotFound.of(mapping.gvk, mapping.plural, name)
        return found

    @overload
    async def list(
        self,
        kind: type[R],
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        index: Mapping[str, str] | None = None,
        limit: int | None = None,
        metadata_only: bool = False,
        consistency: Consistency = "ryow",
    ) -> ObjectList[R]: ...
    @overload
    async def list(
        self,
        kind: UntypedKindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        index: Mapping[str, str] | None = None,
        limit: int | None = None,
        metadata_only: bool = False,
        consistency: Consistency = "ryow",
    ) -> Manifests: ...
    async def list(
        self,
        kind: KindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        index: Mapping[str, str] | None = None,
        limit: int | None = None,
        metadata_only: bool = False,
        consistency: Consistency = "ryow",
    ) -> Objects:
        """``index`` values can only be asked of the cache; otherwise as ``Cache.list``."""
        mapping = await self.mapping(kind)
        if self._is_live(mapping, consistency):
            if index:
                raise ValueError("a live list cannot use an index of the cache")
            return await super().list(
                kind,
                namespace,
                labels=labels,
                fields=fields,
                limit=limit,
                metadata_only=metadata_only,
            )
        if consistency == "ryow":
            await self._cache.settle(mapping)
        return self._cache.list(
            kind,
            self._namespace(mapping, namespace),
            labels=labels,
            fields=fields,
            index=index,
            limit=limit,
            metadata_only=metadata_only,
        )

    def _is_live(self, mapping: RESTMapping, consistency: Consistency) -> bool:
        return consistency == "live" or mapping.gvk in self._cache.options.live_kinds

    def _execute(self, call: Call) -> Awaitable[Response]:
        if not call.is_write:
            return super()._execute(call)
        informers = self._cache.informers_of(call.mapping.gvk.group_kind)
        return write_through(call, super()._execute, informers)
