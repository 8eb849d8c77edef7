"""From kinds to URLs: asked late, asked once, and asked again when something new appears."""

import asyncio
import secrets
from typing import Any

import pytest
from aiohttp import web

from ctrlruntime.api.kinds import GroupKind, GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NoKindMatch, NotFound
from ctrlruntime.client.mapper import RESTMapper
from ctrlruntime.client.transport import Transport
from tests.client.peer import Peer
from tests.client.support import CONFIG_MAP, WIDGET, Seen, widget_crd
from tests.limits import CRD_SECONDS
from tests.support.waiting import eventually, eventually_raises

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
WIDGETS = GroupKind("client.example.com", "Widget")


class Discovery:
    """Serves one group in both forms; ``versions`` may be changed, preferred first."""

    def __init__(self, *, aggregated: bool) -> None:
        self.aggregated = aggregated
        self.versions = ["v2", "v1"]
        self.paths: list[str] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        if request.path == "/apis" and self.aggregated:
            return web.json_response(self._aggregated())
        if request.path == "/apis" and "apidiscovery" in request.headers["Accept"]:
            return web.json_response({"kind": "APIGroupList", "groups": []})
        group = WIDGETS.group
        if request.path == f"/apis/{group}" and self.versions:
            versions = [{"version": version} for version in reversed(self.versions)]
            preferred = {"version": self.versions[0]}
            return web.json_response({"versions": versions, "preferredVersion": preferred})
        for version in self.versions:
            if request.path == f"/apis/{group}/{version}":
                resources = [
                    {"name": "widgets", "kind": "Widget", "namespaced": True},
                    {"name": "widgets/status", "kind": "Widget", "namespaced": True},
                ]
                return web.json_response({"resources": resources})
        return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)

    def _aggregated(self) -> dict[str, Any]:
        kind = {"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Namespaced"}
        versions = [{"version": version, "resources": [kind]} for version in self.versions]
        items = [{"metadata": {"name": WIDGETS.group}, "versions": versions}] if versions else []
        return {"kind": "APIGroupDiscoveryList", "items": items}


@pytest.mark.criterion("CL-11")
@pytest.mark.parametrize("aggregated", [True, False])
async def test_lazy_shared_and_preferred_first(aggregated: bool) -> None:
    discovery = Discovery(aggregated=aggregated)
    async with Peer(discovery) as peer, Transport(Config(host=peer.url)) as transport:
        mapper = RESTMapper(transport)
        assert (await mapper.resolve(CONFIG_MAP)).plural == "configmaps"
        assert discovery.paths == []
        found = await asyncio.gather(*(mapper.resolve(WIDGETS) for _ in range(10)))
        assert {mapping.gvk.version for mapping in found} == {"v2"}
        asked = len(discovery.paths)
        assert asked == (1 if aggregated else 4)
        assert (await mapper.resolve(WIDGET)).gvk.version == "v1"
        assert len(discovery.paths) == asked
        with pytest.raises(NoKindMatch):
            await mapper.resolve(GroupVersionKind(WIDGETS.group, "v1", "Gadget"))
        discovery.versions = ["v2"]
        mapper.invalidate(WIDGETS.group)
        with pytest.raises(NoKindMatch):
            await mapper.resolve(WIDGET)


@pytest.mark.criterion("CL-11")
async def test_a_crd_installed_at_run_time_is_found_and_a_removed_one_dropped(
    api_config: Config,
) -> None:
    group = f"{secrets.token_hex(4)}.example.com"
    gadget = GroupVersionKind(group, "v1", "Widget")
    definition = widget_crd()
    definition["metadata"]["name"] = f"widgets.{group}"
    definition["spec"]["group"] = group
    seen = Seen()
    async with Client.connect(api_config, observer=seen) as client:
        with pytest.raises(NoKindMatch):
            await client.list(gadget, "default")
        await client.create(definition)
        await eventually(lambda: is_served(client, gadget), timeout=CRD_SECONDS)
        asked = len(seen.requests)
        await client.list(gadget, "default")
        assert len(seen.requests) == asked + 1
        await client.delete(CRD, f"widgets.{group}")
        await eventually(
            lambda: is_served(client, gadget), lambda served: not served, timeout=CRD_SECONDS
        )
        await eventually_raises(
            NoKindMatch,
            lambda: client.list(gadget, "default"),
            despite=NotFound,
            timeout=CRD_SECONDS,
        )


async def is_served(client: Client, kind: GroupVersionKind) -> bool:
    try:
        await client.list(kind, "default")
    except (NoKindMatch, NotFound):
        return False
    return True
