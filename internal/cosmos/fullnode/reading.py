"""Sets of nodes as they stand in the cache, those that cannot be read included."""

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from internal.cosmos.reading import read_resource


def read(entry: Entry) -> CosmosFullNode:
    """Return the set. Raises InvalidSpec, which names the fields and no values."""
    return read_resource(entry, CosmosFullNode)
