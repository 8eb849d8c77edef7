"""Sets of nodes as they stand in the cache, those that nobody can read included."""

from pydantic import ValidationError

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.failures import UnrecoverableError


def read(entry: Entry) -> CosmosFullNode:
    """The set. Raises UnrecoverableError, which says what is wrong by place, without any value."""
    try:
        return entry.typed(CosmosFullNode)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5]]
        raise UnrecoverableError(f"the set cannot be read: {'; '.join(places)}") from None
