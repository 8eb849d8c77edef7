"""Keeps who is asked up to date: a controller without a kind of its own, of every set of nodes."""

from dataclasses import dataclass
from typing import Protocol

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller import Result, UnrecoverableError
from ctrlruntime.queue import Request
from internal.cosmos.cache.cosmos_cache import CosmosCache
from internal.cosmos.fullnode.reading import read
from internal.cosmos.fullnode.volumes import chain_home


class NodeSets(Protocol):
    """The sets as the informer has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None:
        """One of them, if it exists."""


@dataclass(frozen=True, slots=True)
class CacheReconciler:
    """Has the nodes of a set polled as long as the set exists. It sends no request itself, and writes nothing."""

    node_sets: NodeSets
    cache: CosmosCache

    async def reconcile(self, request: Request) -> Result | None:
        """One set."""
        entry = self.node_sets.get(request.name, namespace=request.namespace)
        if entry is None:
            await self.cache.forget(request.namespace, request.name)
        else:
            folder, boundaries, chain_id = asked_of(entry)
            self.cache.follow(
                request.namespace,
                request.name,
                folder=folder,
                boundaries=boundaries,
                chain_id=chain_id,
            )
        return None


def asked_of(entry: Entry) -> tuple[str, list[int], str]:
    """Return the folder whose disk is to be looked at, the heights at which another version starts, and the chain."""
    try:
        node_set: CosmosFullNode = read(entry)
    except UnrecoverableError:
        return "", [], ""
    chain = node_set.spec.chain
    return chain_home(node_set), [version.height for version in chain.versions], chain.chain_id
