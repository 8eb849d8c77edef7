"""Read one object from the server: a list of one, which has a version even where there is no object."""

from collections.abc import Callable
from contextlib import aclosing

import msgspec

from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.listwatch import ListWatch
from ctrlruntime.client.reads import list_items
from ctrlruntime.client.transport import list_meta


async def read_one(
    source: ListWatch,
    name: str,
    decode: Callable[[msgspec.Raw], Entry | None],
    *,
    not_older_than: str | None = None,
) -> tuple[Entry | None, str]:
    """Return the object, or None, and the version of the list of one."""
    entry: Entry | None = None
    version = ""
    pages = source.pages(limit=0, not_older_than=not_older_than, name=name)
    async with aclosing(pages):
        async for page in pages:
            version = list_meta(page).resource_version
            for item in list_items(page):
                entry = decode(item)
    return entry, version
