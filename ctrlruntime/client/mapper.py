"""From kinds to URLs: discovery, asked only for what is not known already."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.client.errors import NoKindMatch, NotAcceptable, NotFound
from ctrlruntime.client.transport import Transport
from ctrlruntime.client.unreadable import ODD_SHAPES, reading

_AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


@dataclass(slots=True)
class _Group:
    """A server's answer for one group. ``versions``: preferred first."""

    versions: list[str] = field(default_factory=list)
    kinds: dict[tuple[str, str], RESTMapping] = field(default_factory=dict)

    def find(self, kind: GroupVersionKind | GroupKind) -> RESTMapping | None:
        if isinstance(kind, GroupVersionKind):
            return self.kinds.get((kind.version, kind.kind))
        for version in self.versions:
            if found := self.kinds.get((version, kind.kind)):
                return found
        return None


class RESTMapper:
    """Lazy: nothing is asked before a kind is looked up that is neither built in nor known.

    The first look-up of such a kind takes the aggregated discovery, one request, or, from a server
    where it is turned off (a feature gate), the group's own documents. An unknown kind makes it look again, so a
    CRD installed at run time is found. Look-ups at the same time share one fetch.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        known: Mapping[GroupVersionKind, RESTMapping] = BUILTIN,
    ) -> None:
        self._transport = transport
        self._known = dict(known)
        self._groups: dict[str, _Group] = {}
        self._aggregated = True
        self._fetching: dict[str, asyncio.Future[None]] = {}

    def known(self, kind: GroupVersionKind | GroupKind) -> RESTMapping | None:
        """Return what is known without asking the server."""
        group = self._groups.get(kind.group)
        if group is not None and (found := group.find(kind)):
            return found
        if isinstance(kind, GroupVersionKind):
            return self._known.get(kind)
        same = [mapping for gvk, mapping in self._known.items() if gvk.group_kind == kind]
        return same[0] if len(same) == 1 else None

    def add(self, mapping: RESTMapping) -> None:
        """Make a kind known without discovery."""
        self._known[mapping.gvk] = mapping

    async def resolve(self, kind: GroupVersionKind | GroupKind) -> RESTMapping:
        """Return where a kind is served; of a group kind, in the preferred version.

        Raises NoKindMatch if the server does not serve it now, TransportError for an answer that is no discovery.
        """
        if found := self.known(kind):
            return found
        await self._refresh(kind.group)
        if found := self.known(kind):
            return found
        raise NoKindMatch(kind)

    async def discover(self, kind: GroupVersionKind) -> RESTMapping:
        """Like `resolve`, but queries the server in any case, to see whether the kind is served now."""
        await self._refresh(kind.group)
        group = self._groups.get(kind.group)
        if group is not None and (found := group.find(kind)):
            return found
        raise NoKindMatch(kind)

    def invalidate(self, group: str | None = None) -> None:
        """Forget a group (None: all), because the server has changed."""
        if group is None:
            self._groups.clear()
        else:
            self._groups.pop(group, None)

    async def _refresh(self, group: str) -> None:
        """One fetch at a time for the same document; callers meanwhile wait for it."""
        document = ("core" if not group else "named") if self._aggregated else f"group {group}"
        fetching = self._fetching.get(document)
        if fetching is None:
            fetching = asyncio.ensure_future(self._fetch(group))
            self._fetching[document] = fetching
            fetching.add_done_callback(lambda done: self._fetched(document, done))
        await asyncio.shield(fetching)

    def _fetched(self, document: str, done: asyncio.Future[None]) -> None:
        self._fetching.pop(document, None)
        if not done.cancelled():
            done.exception()  # retrieved, also when every waiter has been cancelled

    async def _fetch(self, group: str) -> None:
        if self._aggregated:
            if await self._fetch_aggregated("/apis" if group else "/api"):
                return
            self._aggregated = False
        await self._fetch_group(group)

    async def _fetch_aggregated(self, path: str) -> bool:
        """Return False when the server only has the plain form."""
        try:
            response = await self._transport.request("GET", path, headers={"Accept": _AGGREGATED})
        except (NotAcceptable, NotFound):
            return False
        with reading("GET", path, *ODD_SHAPES):
            document = orjson.loads(response.body)
            if document.get("kind") != "APIGroupDiscoveryList":
                return False
            found = {
                item.get("metadata", {}).get("name", ""): _aggregated_group(item)
                for item in document.get("items") or ()
            }
        for name in list(self._groups):
            if (name == "") == (path == "/api") and name not in found:
                del self._groups[name]
        self._groups.update(found)
        return True

    async def _fetch_group(self, name: str) -> None:
        group = _Group()
        prefix = f"/apis/{name}" if name else "/api"
        try:
            body = (await self._transport.request("GET", prefix)).body
        except NotFound:
            self._groups.pop(name, None)
            return
        with reading("GET", prefix, *ODD_SHAPES):
            group.versions = _versions_of(orjson.loads(body))
        for version in group.versions:
            path = f"{prefix}/{version}"
            try:
                body = (await self._transport.request("GET", path)).body
            except NotFound:
                continue
            with reading("GET", path, *ODD_SHAPES):
                for resource in orjson.loads(body).get("resources") or ():
                    _add_plain(group, name, version, resource)
        self._groups[name] = group


def _aggregated_group(item: Mapping[str, Any]) -> _Group:
    name = item.get("metadata", {}).get("name", "")
    group = _Group()
    for served in item.get("versions") or ():
        version = served["version"]
        group.versions.append(version)
        for resource in served.get("resources") or ():
            kind = (resource.get("responseKind") or {}).get("kind")
            if kind:
                gvk = GroupVersionKind(name, version, kind)
                namespaced = resource.get("scope") == "Namespaced"
                mapping = RESTMapping(gvk, resource["resource"], namespaced)
                group.kinds.setdefault((version, kind), mapping)
    return group


def _versions_of(document: Mapping[str, Any]) -> list[str]:
    """Of an APIGroup or an APIVersions document, preferred first."""
    versions = [
        item["version"] if isinstance(item, dict) else item
        for item in document.get("versions") or ()
    ]
    preferred = (document.get("preferredVersion") or {}).get("version")
    if preferred in versions:
        versions.remove(preferred)
        versions.insert(0, preferred)
    return versions


def _add_plain(group: _Group, name: str, version: str, resource: Mapping[str, Any]) -> None:
    plural = resource["name"]
    if "/" in plural:
        return
    gvk = GroupVersionKind(name, version, resource["kind"])
    mapping = RESTMapping(gvk, plural, bool(resource.get("namespaced")))
    group.kinds.setdefault((version, gvk.kind), mapping)
