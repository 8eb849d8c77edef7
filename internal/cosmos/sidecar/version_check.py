"""Tells the set of nodes which height a node makes next, and whether it has the version for it."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from apis.cosmos import CosmosFullNode, CosmosFullNodeStatus
from ctrlruntime.client import APIError, Client, NotFound, StatusClient, TransportError
from internal.cosmos.comet.address import Address
from internal.cosmos.comet.client import NodeClient
from internal.cosmos.comet.failures import NodeError
from internal.cosmos.fullnode.plausible import plausible_height
from internal.cosmos.fullnode.versions import image_at, version_at
from internal.cosmos.labels import FIELD_MANAGER

UPGRADE_INFO: Final = "upgrade-info.json"
"""File in the node's folder `data`: a chain writes it when it stops for the next version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which node it is, and what it runs."""

    namespace: str
    node_set: str
    pod: str
    home: Path
    """The folder of its files."""
    image: str
    """Image of its container `node`."""


class WrongVersion(Exception):
    """The Pod has another version of the chain's binary than its height wants. It is replaced."""


def upgrade_height(home: Path) -> int:
    """Return the height that the chain last stopped at for another version; 0 if it never did.

    That height is the first to be made by the other version. A file that cannot be read is ignored.
    """
    try:
        found = orjson.loads((home / "data" / UPGRADE_INFO).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return 0
    height = found.get("height") if isinstance(found, dict) else None
    text = str(height)
    return int(text) if text.isascii() and text.isdigit() else 0


class VersionCheck:
    """Looks at the node and its files, and writes `status.height` of its set, that of its own Pod only.

    The manager writes heights as well, once a minute; so this writes only what decides on a version: a
    height that is not known yet, or that wants another version than the one known.
    """

    def __init__(self, client: Client, place: Place) -> None:
        self._client = client
        self._place = place
        self._earlier: int | None = None
        self._statuses = StatusClient(client, CosmosFullNode, field_manager=FIELD_MANAGER)

    async def before_start(self) -> str:
        """Return what is known before the node starts. Returns that in words.

        Raises WrongVersion if the Pod is not to start the node, and the client's errors.
        """
        place = self._place
        node_set = await self._client.get(CosmosFullNode, place.node_set, namespace=place.namespace)
        known = node_set.status.height.get(place.pod, 0)
        height = max(known, upgrade_height(place.home))
        await self._report_height(node_set, height)
        wanted = image_at(node_set, place.pod, height)
        if version_at(node_set.spec.chain.versions, height) is not None and wanted != place.image:
            raise WrongVersion(
                f"height {height} wants {wanted}, and this Pod has {place.image}; it is replaced"
            )
        return f"height {height} is made with {place.image}"

    async def look(self, nodes: NodeClient, address: Address) -> int:
        """Return the next height of the running node; 0 if nothing is known. It is reported to the set.

        Raises the client's errors.
        """
        try:
            status = await nodes.status(address)
        except NodeError:
            status = None
        on_disk = upgrade_height(self._place.home)
        if status is None and not on_disk:
            return 0
        place = self._place
        node_set = await self._client.get(CosmosFullNode, place.node_set, namespace=place.namespace)
        is_own = status is not None and status.is_of(node_set.spec.chain.chain_id)
        polled = status.height + 1 if status is not None and is_own else 0
        height = max(self._believed(node_set, polled), on_disk)
        await self._report_height(node_set, height)
        return height

    def _believed(self, node_set: CosmosFullNode, polled: int) -> int:
        """Return what is plausible of the reported height beside what is recorded of the set, else 0."""
        recorded = dict(node_set.status.height)
        known = recorded.pop(self._place.pod, 0)
        earlier, self._earlier = self._earlier, polled or self._earlier
        return plausible_height(polled, known, recorded.values(), earlier) or 0

    async def keep_looking(self, nodes: NodeClient, address: Address, *, seconds: float) -> None:
        """Look every so many seconds, for good. A server that cannot be asked is asked again next time."""
        while True:
            try:
                await self.look(nodes, address)
            except NotFound:
                return
            except (APIError, TransportError, TimeoutError):
                pass
            await asyncio.sleep(seconds)

    async def _report_height(self, node_set: CosmosFullNode, height: int) -> None:
        pod, versions = self._place.pod, node_set.spec.chain.versions
        known = node_set.status.height.get(pod)
        if known is not None and version_at(versions, known) == version_at(versions, height):
            return
        if not height:
            return

        def update(status: CosmosFullNodeStatus) -> None:
            status.height = {**status.height, pod: height}

        await self._statuses.sync_update(
            self._place.node_set, update, namespace=self._place.namespace, uid=node_set.metadata.uid
        )
