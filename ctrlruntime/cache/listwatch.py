"""The requests of a reflector: lists in pages, of one object too, and watches, of one kind in one scope."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

import msgspec

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.calling import METADATA_ONLY, METADATA_ONLY_LIST
from ctrlruntime.client.reads import list_items, selector_params
from ctrlruntime.client.transport import Transport, list_meta


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """One watch. Times in seconds; ``initial_events`` requests the list as the head of the stream."""

    resource_version: str | None
    timeout: float
    inactivity: float
    initial_events: bool = False


class ListWatch(Protocol):
    """Lists and watches one kind for a Reflector, as client-go's ListerWatcher."""

    def pages(
        self, *, limit: int, not_older_than: str | None = None, name: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Return a consistent list, or one at least as new as a version; ``name`` narrows it to one object."""
        ...

    def watch(self, request: WatchRequest) -> AsyncGenerator[bytes, None]:
        """Return the lines of a watch."""
        ...


class ServerListWatch:
    """Lists and watches over HTTP."""

    _GRACE = 30.0  # how long past its timeoutSeconds a server may keep a watch before we end it

    def __init__(
        self,
        transport: Transport,
        mapping: RESTMapping,
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
        list_timeout: float = 60.0,
    ) -> None:
        self._transport = transport
        self._path = mapping.path(namespace=namespace)
        self._selectors = selector_params(labels, fields)
        self._metadata_only = metadata_only
        self._list_timeout = list_timeout

    def pages(
        self, *, limit: int, not_older_than: str | None = None, name: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        params = dict(self._selectors)
        if name is not None:
            own = f"metadata.name={name}"
            params["fieldSelector"] = ",".join(filter(None, (params.get("fieldSelector"), own)))
        if not_older_than is not None:
            params["resourceVersion"] = not_older_than
            params["resourceVersionMatch"] = "NotOlderThan"
        return self._transport.list_pages(
            self._path,
            params,
            limit=limit,
            headers={"Accept": METADATA_ONLY_LIST} if self._metadata_only else None,
            timeout=self._list_timeout,
        )

    def watch(self, request: WatchRequest) -> AsyncGenerator[bytes, None]:
        params = dict(self._selectors)
        params["watch"] = "true"
        params["allowWatchBookmarks"] = "true"
        params["timeoutSeconds"] = str(int(request.timeout))
        if request.resource_version is not None:
            params["resourceVersion"] = request.resource_version
        if request.initial_events:
            params["sendInitialEvents"] = "true"
            params["resourceVersionMatch"] = "NotOlderThan"
        return self._transport.watch_lines(
            self._path,
            params,
            inactivity=request.inactivity,
            timeout=request.timeout + self._GRACE,
            headers={"Accept": METADATA_ONLY} if self._metadata_only else None,
        )


async def read_one(
    source: ListWatch,
    name: str,
    decode: Callable[[msgspec.Raw], Entry | None],
    *,
    not_older_than: str | None = None,
) -> tuple[Entry | None, str]:
    """Read one object from the server. Return it, or None, and the version of the list of one, which there is in any case."""
    entry: Entry | None = None
    version = ""
    pages = source.pages(limit=0, not_older_than=not_older_than, name=name)
    async with aclosing(pages):
        async for page in pages:
            version = list_meta(page).resource_version
            for item in list_items(page):
                entry = decode(item)
    return entry, version
