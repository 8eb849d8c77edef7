"""Sets of nodes as they stand in the cache, those that cannot be read included."""

from pydantic import ValidationError

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.error_status import unreadable
from internal.cosmos.invalid import InvalidSpec


def read(entry: Entry) -> CosmosFullNode:
    """Return the set. Raises InvalidSpec, which names the fields and no values."""
    try:
        return entry.typed(CosmosFullNode)
    except ValidationError as error:
        raise InvalidSpec(unreadable(error)) from None
